#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The blocks of one executor, each with a thread of its own: they do their
/// actions one at a time, in the executor's order. Safe to use from those
/// threads.
class SeatOrder {
 public:
  /// The plans outlive this object.
  SeatOrder(const Plans& plans, int executor);

  /// Begins a grant: the seat's next actions are those of the grant. All seats
  /// of the executor are given the same grants.
  void begin(int seat, const Grant& grant);
  /// Waits until all that comes before the block's next action is done, then
  /// does it. Throws PeerGoneError when another block of the executor has
  /// failed.
  void execute(int seat, const std::function<void()>& action);
  /// A block has failed: the others don't wait for it.
  void fail();

 private:
  struct Place {
    std::deque<std::int64_t> places;  // of its actions, among the executor's
    std::int64_t given = 0;           // actions of the executor
  };
  bool is_turn_of(const Place& seat) const;

  const Plans& plans_;
  const int executor_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<int, Place> seats_;  // by number
  std::int64_t done_ = 0;       // actions of the executor
  bool has_failed_ = false;
};

}  // namespace sluice
