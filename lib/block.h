#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/layer.h"
#include "lib/policy.h"
#include "lib/tensors.h"

namespace sluice {

/// How 4-dimensional tensors lie in memory.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

/// Consecutive layers of a model. Used by one thread.
class Block {
 public:
  /// block: k, from 1. first_layer: the uncut model's index of layers[0].
  Block(int block, std::int64_t first_layer,
        std::vector<std::shared_ptr<Layer>> layers, MemoryFormat format);

  /// Runs the layers; `pass.layer` is set for each. Keeps the graph when
  /// gradients are enabled. Throws UserError when a layer wrote the block's
  /// input in place.
  Tensors forward(const Tensors& inputs, Pass pass);

  /// "layers.<i>.<name>", i counting in the uncut model.
  const NamedTensors& parameters() const { return parameters_; }
  const NamedTensors& buffers() const { return buffers_; }
  int index() const { return block_; }

 private:
  void set_training(bool training);

  int block_;
  std::int64_t first_layer_;
  std::vector<std::shared_ptr<Layer>> layers_;
  NamedTensors parameters_;
  NamedTensors buffers_;
  bool training_ = true;
};

/// Makes the layers [first, last] of the model, initialised by
/// (seed, layer index).
std::vector<std::shared_ptr<Layer>> make_layers(const Model& model,
                                                std::int64_t first,
                                                std::int64_t last,
                                                std::uint64_t seed);

/// Lays 4-dimensional tensors in memory as the format says; others as they are.
at::Tensor laid_out(const at::Tensor& tensor, MemoryFormat format);

}  // namespace sluice
