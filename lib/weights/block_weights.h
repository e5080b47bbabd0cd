#pragma once

#include "lib/weights/weight_view.h"

namespace sluice {

/// Forwards the batch with a graph, and counts in the flight what that keeps.
Tensors forward_with_graph(Block& block, Flight& flight);

/// Copies of the block's weights as they are now.
Tensors copied_weights(const Block& block);
/// Overwrites the block's weights in place, behind the back of autograd: graphs
/// that refer to them go on with the new values (methods that want otherwise
/// have leaves of their own).
void overwrite_weights(const Tensors& weights, Block& block);

}  // namespace sluice
