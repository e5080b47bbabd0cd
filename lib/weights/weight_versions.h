#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Versions of a block's weights, none of which is copied: a twin of the block
/// shares the storage of one version, and an update while that twin is held
/// writes the next version into the storage of another. Twins that are free
/// again are reused; BatchNorm's statistics are the block's. Used
/// by one thread; the block outlives it.
class WeightVersions {
 public:
  explicit WeightVersions(Block& block) : block_(block) {}

  /// A twin with the weights that the block has now, in the same storage: they
  /// stay as they are while the caller holds it.
  std::shared_ptr<Block> today();
  /// A twin with copies of these weights, in the order of Block::parameters().
  std::shared_ptr<Block> copy_of(const Tensors& weights);
  /// Storage for the block's next weights, in the order of
  /// Block::parameters(): from now on it is today's. Empty where today's isn't
  /// held, and so may be overwritten.
  Tensors next();
  /// Bytes of the weights of all twins that somebody holds, without today's.
  std::int64_t held_bytes() const;

 private:
  std::shared_ptr<Block> unused();
  static bool is_held(const std::shared_ptr<Block>& twin);

  Block& block_;
  std::vector<std::shared_ptr<Block>> twins_;  // each is here once
  const Block* today_ = nullptr;               // of the twins
};

}  // namespace sluice
