#pragma once

#include <functional>
#include <optional>

#include <c10/core/Device.h>

#include "lib/metrics/gpu_clock.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// What the actions and waits of a block cost, in seconds: on a GPU the time
/// that it works, by a sample (GpuClock), elsewhere that of the thread. Used by
/// one thread.
class SeatClock {
 public:
  explicit SeatClock(const c10::Device& device);

  /// Does the work, which counts for that op but for what it waits meanwhile.
  void measure(Op op, const std::function<void()>& work);
  const SpentTime& spent() const { return spent_; }
  /// Adds the times of all work started on a GPU, which it waits for.
  void collect();

  /// Adds its lifetime to the block's waiting time.
  class WaitScope {
   public:
    explicit WaitScope(SeatClock& clock);
    ~WaitScope();
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

   private:
    Stopwatch stopwatch_;
    std::optional<GpuClock>& gpu_;
    bool was_running_;
  };

 private:
  SpentTime spent_;
  std::optional<GpuClock> gpu_;  // of a block on a GPU
};

}  // namespace sluice
