#pragma once

#include <cstdint>

#include "lib/schedules/plan/micro_batches.h"

namespace sluice {

/// Factor of a batch's gradient in the mean that replicas make of those of a
/// turn: by samples, so that it is that of all samples together. 1 where all
/// batches of the turn have equally many; of the whole turn the factors add up
/// to the number of its batches.
inline double weight_in_turn(const MicroBatches& cut, std::int64_t batch) {
  if (cut.turns_per_epoch == 0 || cut.last_samples == cut.samples) return 1;
  const auto samples = [&](std::int64_t deal) {
    return (deal + 1) % cut.turns_per_epoch == 0 ? cut.last_samples
                                                 : cut.samples;
  };
  const std::int64_t turn = cut.turn_of(batch);
  const std::int64_t first = cut.deals.before(turn);
  const std::int64_t count = cut.deals.replicas;
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < count; ++i) all += samples(first + i);
  if (all == count * cut.samples) return 1;
  const std::int64_t mine =
      cut.dealt > 1 ? cut.source_batch(batch) : cut.deal_of(turn);
  return static_cast<double>(count * samples(mine)) / static_cast<double>(all);
}

}  // namespace sluice
