#pragma once

#include <deque>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include "lib/metrics/time_spent.h"

namespace sluice {

/// How long a GPU works on a block's actions: the host only starts its work, so
/// the times are taken by events in the current stream. Used by one thread.
class GpuClock {
 public:
  explicit GpuClock(const c10::Device& device) : device_(device) {}

  /// What is started from now on counts for that op, until pause():
  /// while the host waits for a message the GPU has nothing to do.
  void resume(Op op);
  /// Returns whether it was running.
  bool pause();
  /// Goes on after a pause within an action.
  void resume() { resume(op_); }

  /// Adds the times of the work that is done by now; with `all` of all of it,
  /// which it waits for.
  void collect(TimeSpent& spent, bool all);

 private:
  struct Interval {
    Op op;
    c10::Event start;
    c10::Event end;
  };
  c10::Event now() const;

  c10::Device device_;
  Op op_ = Op::forward;
  std::deque<Interval> intervals_;  // the last one is open while running
  bool running_ = false;
};

}  // namespace sluice
