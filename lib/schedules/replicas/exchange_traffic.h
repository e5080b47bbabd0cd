#pragma once

#include <cstdint>
#include <vector>

#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Bytes that the replicas of a block send each other for its updates, counted
/// from its plan without going through the turns. Of the times that they agree
/// for evaluations and checkpoints, and of lessons, nothing. Used by one
/// thread.
class ExchangeTraffic {
 public:
  /// block: of any replica, in lockstep or running free.
  explicit ExchangeTraffic(const BlockPlan& block) : block_(block) {}

  /// Bytes sent by all replicas in the first so many turns of a run, in units
  /// of what one of them exchanges (Costs::exchange_bytes): of a sum as
  /// exchange_seconds() has it; to a centre and back each counts once, replica
  /// 1 beside it as the others.
  double sent_in(std::int64_t turns);

 private:
  std::int64_t exchanges_in(std::int64_t turns) const;
  std::int64_t adoptions_in(std::int64_t turns) const;
  double messages_in(std::int64_t exchanges);

  const BlockPlan block_;
  /// Messages in the first exchanges of pairs that are drawn, from none on.
  std::vector<std::int64_t> of_pairs_ = {0};
};

/// Whether blocks that run free, or replicas of them, leave out turns or
/// batches as a clock decides: then no plan tells what a run does.
bool clock_decides_work(const RunPlan& plan);

}  // namespace sluice
