#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "lib/blocks/layer.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// How 4-dimensional tensors lie in memory.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

class GraphedForward;

/// Consecutive layers of a model. Used by one thread.
class Block {
 public:
  /// block: k, from 1. first_layer: the uncut model's index of the first of the
  /// layers that `make` makes, anew each time.
  Block(int block, std::int64_t first_layer, std::function<Layers()> make,
        MemoryFormat format, const c10::Device& device = c10::DeviceType::CPU);

  /// Runs the layers; `pass.layer` is set for each. Keeps the graph when
  /// gradients are enabled. Throws UserError when a layer wrote the block's
  /// input in place.
  Tensors forward(const Tensors& inputs, Pass pass);
  /// Whether all layers are reversible: then inverse() gives the inputs of
  /// which forward() would make `outputs`, but for rounding.
  bool is_reversible() const;
  Tensors inverse(const Tensors& outputs, Pass pass);

  /// "layers.<i>.<name>", i counting in the uncut model, in the order of the
  /// layers: all, and those that train.
  const NamedTensors& weights() const { return weights_; }
  const NamedTensors& parameters() const { return parameters_; }
  /// Parameters that don't require gradients: they never change, and twins
  /// share them.
  const NamedTensors& frozen() const { return frozen_; }
  const NamedTensors& buffers() const { return buffers_; }

  /// A block of the same layers and frozen parameters, with other parameters
  /// and buffers of its own, which are as `make` left them.
  Block twin() const;
  /// From now on our buffers are the other's: what either writes in place, both
  /// see.
  void share_buffers(const Block& twin);
  /// From now on our parameters lie in the other's storage. Graphs of ours that
  /// refer to the old one must be gone.
  void share_weights(const Block& twin);

  /// Makes training forwards and their backwards replays of graphs from now on,
  /// those of later twins too. Does nothing where the device has none.
  void use_graphs();
  /// Training forwards keep the inputs of every `layers` layers alone from now
  /// on, and their backwards run these again (run_checkpointed()); those of
  /// later twins too. 0: they keep all.
  void checkpoint_every(std::int64_t layers) { checkpointed_ = layers; }

  int index() const { return block_; }
  /// Device of the block's weights, on which its inputs must lie.
  const c10::Device& device() const { return device_; }
  std::int64_t first_layer() const { return first_layer_; }

 private:
  void set_training(bool training);
  Tensors run_layers(const Tensors& inputs, Pass pass);
  Tensors run_segments(const Tensors& inputs, Pass pass);

  int block_;
  std::int64_t first_layer_;
  std::function<Layers()> make_;
  MemoryFormat format_;
  c10::Device device_;
  Layers layers_;
  NamedTensors weights_;
  NamedTensors parameters_;
  NamedTensors frozen_;
  NamedTensors buffers_;
  bool training_ = true;
  std::int64_t checkpointed_ = 0;
  std::shared_ptr<GraphedForward> graphs_;  // nullptr: none are used
};

/// Puts buffers, such as a block's, back as they were when it began: a second
/// forward of a batch must not move BatchNorm's statistics again.
class BufferGuard {
 public:
  explicit BufferGuard(Tensors buffers);
  explicit BufferGuard(const Block& block);
  ~BufferGuard();
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

 private:
  Tensors buffers_;
  Tensors before_;
};

/// Makes the layers [first, last] of the model, initialised by
/// (seed, layer index).
Layers make_layers(const Model& model, std::int64_t first, std::int64_t last,
                   std::uint64_t seed);

/// The layers from `first` on as block k.
Block make_block(const Model& model, int block, std::int64_t first,
                 std::int64_t last, std::uint64_t seed, MemoryFormat format,
                 const c10::Device& device = c10::DeviceType::CPU);

/// Lays 4-dimensional tensors in memory as the format says; others as they are.
at::Tensor laid_out(const at::Tensor& tensor, MemoryFormat format);

}  // namespace sluice
