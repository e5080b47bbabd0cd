#pragma once

#include <chrono>

#include "lib/schedules/plan/op.h"

namespace sluice {

using SteadyTime = std::chrono::steady_clock::time_point;

inline double seconds_since(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Seconds since 1970 by the wall clock.
inline double seconds_since_1970() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Adds the seconds of its lifetime to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() { total_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  SteadyTime start_ = std::chrono::steady_clock::now();
};

/// The seconds that a seat works and waits.
struct SpentTime {
  OpValues<double> working = {};
  /// Seconds of waiting for messages and for room for them; not part of
  /// `working`.
  double waiting = 0;

  double of(Op op) const { return working[op]; }
};

/// Measures an action for the life of this object; what it waits meanwhile is
/// not work.
class ActionTimer {
 public:
  ActionTimer(SpentTime& spent, Op op)
      : spent_(spent), op_(op), waited_before_(spent.waiting) {}
  ~ActionTimer() {
    const double waited = spent_.waiting - waited_before_;
    spent_.working[op_] += seconds_since(start_) - waited;
  }
  ActionTimer(const ActionTimer&) = delete;
  ActionTimer& operator=(const ActionTimer&) = delete;

 private:
  SpentTime& spent_;
  Op op_;
  double waited_before_;
  SteadyTime start_ = std::chrono::steady_clock::now();
};

}  // namespace sluice
