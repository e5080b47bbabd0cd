#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A user's own policy may draw weights from LibTorch's process-wide generator
/// while it is made. Blocks are made in other threads and processes, in any
/// order, and shall draw the same everywhere, registered as parameters or not:
/// so the generator's states are noted once and shipped.

/// The generator's states where the config is read, and before each end of a
/// boundary is made, one after the other from where it stands now. Leaves the
/// generator there.
NamedTensors noted_draws(const Experiment& experiment);

/// From now on the policies draw from those states whenever they are made.
/// `turn` is held meanwhile; making a policy may make layers, which takes it
/// once more.
void draw_from(const NamedTensors& states,
               const std::shared_ptr<std::recursive_mutex>& turn,
               Experiment& experiment);

/// Where a launcher leaves them for its workers.
std::string draws_of_network(const std::string& folder);

/// The state under which the config is to be read. Throws InternalError when
/// there is none.
const at::Tensor& state_at_config(const NamedTensors& states);

}  // namespace sluice
