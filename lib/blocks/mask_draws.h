#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

/// What a forward draws for its batch where its operations are captured in a
/// graph (lib/tensors/device_graph.h): each draw fills a tensor that the graph
/// reads, in place, for a batch of that number. Before a replay all are done.
using MaskDraws = std::vector<std::function<void(std::int64_t batch)>>;

}  // namespace sluice
