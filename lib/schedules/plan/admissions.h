#pragma once

#include <cstdint>
#include <deque>
#include <iterator>

#include "lib/schedules/plan/action.h"

namespace sluice {

/// When the batches of block 1, to which no message brings any, were let in:
/// the first FreePlan::in_flight at the begin, and one for each that has gone
/// backward. Time{} stands for the begin.
template <class Time>
class Admissions {
 public:
  /// Notes that the block has done the action at that time, and may now forward
  /// so many further batches at once.
  void did(const Action& action, std::int64_t room, const Time& now) {
    if (action.op == Op::backward) let_in_.push_back(now);
    while (!let_in_.empty() && std::ssize(let_in_) > room) let_in_.pop_front();
  }
  /// Admission of the batch that it would forward next; room >= 1.
  Time next(std::int64_t room) const {
    return std::ssize(let_in_) < room ? Time{} : let_in_.front();
  }

 private:
  std::deque<Time> let_in_;
};

}  // namespace sluice
