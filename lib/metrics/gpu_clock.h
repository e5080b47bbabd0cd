#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include "lib/metrics/time_spent.h"

namespace sluice {

/// How long a GPU works on a block's actions: the host only starts its work, so
/// the times are taken by events in the current stream. It is a sample, for
/// events take time, too: the first kTimed actions of each kind are timed, and
/// then one in kTimed, which stands for as many. Used by one thread.
class GpuClock {
 public:
  static constexpr std::int64_t kTimed = 8;

  explicit GpuClock(const c10::Device& device) : device_(device) {}

  /// An action begins. What is started from now on counts for that op, until
  /// pause(): while the host waits for a message the GPU has nothing to do.
  void resume(Op op);
  /// Pauses the clock. Returns whether it was running.
  bool pause();
  /// Resumes the clock after a pause within an action.
  void resume();

  /// Adds the times of the work that is done by now; with `all` of all of it,
  /// which it waits for.
  void collect(SpentTime& spent, bool all);

 private:
  struct Interval {
    Op op;
    std::int64_t weight;  ///< of actions that it stands for
    c10::Event start;
    c10::Event end;
  };
  c10::Event now();

  c10::Device device_;
  Op op_ = Op::forward;
  OpValues<std::int64_t> actions_ = {};  // that have begun
  std::int64_t weight_ = 0;              // of the action; 0: it is not timed
  std::deque<Interval> intervals_;  // the last one is open while it is timed
  bool running_ = false;
  std::vector<c10::Event> free_;  // to be recorded again
};

}  // namespace sluice
