#pragma once

#include <string>

#include "lib/checkpoints/saved_state.h"
#include "lib/schedules/deals.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The replicas that a checkpoint is of, in the state of a worker, which is
/// called "workers.<block>".
void save_deals(const Deals& deals, const std::string& worker,
                NamedTensors& into);
Deals deals_in(const SavedState& saved, const std::string& worker);
/// Of the whole checkpoint.
Deals deals_of(const std::string& checkpoint);

}  // namespace sluice
