#pragma once

#include "lib/weights/history.h"

namespace sluice {

std::unique_ptr<History> make_kept_graph(Block& block);
std::unique_ptr<History> make_mixed(Block& block, bool saved);
std::unique_ptr<History> make_stash(Block& block);
std::unique_ptr<History> make_recompute(Block& block);
std::unique_ptr<History> make_replay(Block& block, StatisticsAt statistics);

/// Forwards the batch with a graph, and counts in the flight what that keeps.
Tensors forward_with_graph(Block& block, Flight& flight);

/// Copies of the block's weights as they are now.
Tensors copied_weights(const Block& block);
/// Overwrites the block's weights in place, behind the back of autograd: graphs
/// that refer to them go on with the new values (methods that want otherwise
/// have leaves of their own).
void overwrite_weights(const Tensors& weights, Block& block);

}  // namespace sluice
