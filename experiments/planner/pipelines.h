#pragma once

#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/planner/candidates.h"

namespace sluice::planner {

/// The exact pipelines to try for a method in as many blocks as `experiment`
/// has: orders, each with once, twice and four times as many batches as blocks,
/// where batch_size is a multiple of them. None where a boundary delays, or
/// exact gradients pass no boundary. GPipe's order, which takes more memory
/// than 1F1B, only where messages take time: it hides them better.
std::vector<PlannedMethod> pipelines_of(const PlannedMethod& method,
                                        const Experiment& experiment,
                                        bool messages_take_time);

}  // namespace sluice::planner
