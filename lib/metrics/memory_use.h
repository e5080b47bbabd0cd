#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice {

/// What a block holds of batches in flight, in bytes, by purpose.
struct MemoryUse {
  std::int64_t stash = 0;    ///< weights of forwards to come back to
  std::int64_t history = 0;  ///< inputs, labels, features, gradients sent
  std::int64_t queue = 0;    ///< messages that wait to be received
  std::int64_t graph = 0;    ///< what autograd keeps of its layers' forwards

  /// The most of each.
  void raise_to(const MemoryUse& other) {
    stash = std::max(stash, other.stash);
    history = std::max(history, other.history);
    queue = std::max(queue, other.queue);
    graph = std::max(graph, other.graph);
  }
};

}  // namespace sluice
