#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/by_block.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// The plans of a seat, of which the one of its phase holds. For one thread.
class SeatPlan {
 public:
  /// The plans outlive it; `seat` is its number in them.
  SeatPlan(const Plans& plans, int seat) : plans_(plans), seat_(seat) {}

  void enter(std::int64_t phase) { phase_ = phase; }
  std::int64_t phase() const { return phase_; }
  int seat() const { return seat_; }
  const RunPlan& run() const {
    return plans_.at(static_cast<std::size_t>(phase_));
  }
  const BlockPlan& plan() const { return by_block(run().blocks, seat_); }
  /// Plans of the neighbours, in replica 1: all replicas have the same.
  const BlockPlan& below() const {
    return by_block(run().blocks, plan().block - 1);
  }
  const BlockPlan& above() const {
    return by_block(run().blocks, plan().block + 1);
  }
  bool is_last() const { return plan().block == run().depth(); }
  /// The seat's name in errors.
  std::string name() const { return name_of_seat(run(), seat_); }

 private:
  const Plans& plans_;
  int seat_;
  std::int64_t phase_ = 0;
};

/// How far a seat has come.
struct SeatProgress {
  /// Updates of the weights; where a centre is given gradients, those that it
  /// had made when the block took its weights.
  std::int64_t version = 0;
  std::int64_t first_batch = 0;  ///< Grant's
  std::int64_t last_turn = -1;   ///< that went backward
  double last_rate = 0;          ///< of an update
  std::int64_t served_as = 0;    ///< of the last action, Seat::served_as()
};

}  // namespace sluice
