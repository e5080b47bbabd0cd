#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/checkpoints/saved_state.h"
#include "lib/schedules/plan/deals.h"
#include "lib/schedules/replicas/dealer.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The replicas that a checkpoint is of, in the state of a worker, which is
/// called "workers.<block>".
void save_deals(const Deals& deals, const std::string& worker,
                NamedTensors& into);
Deals deals_in(const SavedState& saved, const std::string& worker);
/// Replicas that a whole checkpoint is of.
Deals deals_of(const std::string& checkpoint);

/// Saves what the centre of a block knows of batches that a dealer deals, if
/// there is anything.
void save_dealt(const DealtBatches& dealt, const std::string& worker,
                NamedTensors& into);
/// Empty where nothing was saved.
DealtBatches dealt_in(const SavedState& saved, const std::string& worker);

/// Saves the numbers of replicas of the blocks, index k-1, where these differ
/// (SeatNames::counts); empty: all have as many.
void save_counts(const std::vector<std::int64_t>& counts,
                 const std::string& worker, NamedTensors& into);
std::vector<std::int64_t> counts_in(const SavedState& saved,
                                    const std::string& worker);
std::vector<std::int64_t> counts_of(const std::string& checkpoint);

}  // namespace sluice
