#pragma once

#include "lib/blocks/block.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Statistics of a block whose means over the replicas are evaluated: buffers
/// that are numbers of a kind that has means.
class Statistics {
 public:
  /// The block outlives it. has_means: else replica 1's are evaluated.
  Statistics(const Block& block, bool has_means)
      : block_(block), has_means_(has_means) {}

  /// The replica's own; not copies.
  Tensors own() const {
    Tensors all;
    for (const auto& [name, buffer] : block_.buffers())
      if (is_mean(buffer)) all.push_back(buffer);
    return all;
  }

  /// All buffers of the block, with these means in the place of own().
  Tensors with(const Tensors& means) const {
    Tensors buffers = values_of(block_.buffers());
    std::size_t next = 0;
    for (at::Tensor& buffer : buffers)
      if (is_mean(buffer)) buffer = means.at(next++);
    return buffers;
  }

 private:
  bool is_mean(const at::Tensor& buffer) const {
    return has_means_ && buffer.is_floating_point();
  }

  const Block& block_;
  const bool has_means_;
};

}  // namespace sluice
