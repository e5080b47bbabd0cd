#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/tensors/tensors.h"

namespace sluice {

// A user's own policy may draw weights from LibTorch's process-wide generator
// while it is constructed. Blocks are constructed in several threads and
// processes, in any order, and must draw the same values everywhere: so the
// states of the generator are recorded once, and sent to all of them.

/// The generator's states when the config is read, and before each end of a
/// boundary is constructed, in the order in which one thread would do it from
/// the present state. Restores the present state.
NamedTensors noted_draws(const Experiment& experiment);

/// Lets each policy, from now on, draw from its recorded state when it is
/// constructed. The mutex `turn` is held meanwhile; a policy may construct
/// layers, which lock it again.
void draw_from(const NamedTensors& states,
               const std::shared_ptr<std::recursive_mutex>& turn,
               Experiment& experiment);

/// The file in which a launcher leaves the states for its workers.
std::string draws_of_network(const std::string& folder);

/// The state of the generator with which the config is to be read. Throws
/// InternalError when `states` has none.
const at::Tensor& state_at_config(const NamedTensors& states);

}  // namespace sluice
