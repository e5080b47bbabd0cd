#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Throws UserError where graphs = true, and the experiment does what graphs
/// can't have (kRefusals of graph_rules.cpp).
void check_graphs(const Experiment& experiment, const Fields& top);

}  // namespace sluice
