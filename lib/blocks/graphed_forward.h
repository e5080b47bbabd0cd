#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "lib/tensors/layouts.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The training forwards of a block on a GPU and their backwards as graphs: a
/// few launches for each instead of one for each operation, with the same bits.
/// The first batches of a shape run as ever; then the operations of a forward
/// and of its backward are captured, for each batch that is in flight at the
/// same time, since its activations lie in the graph's memory. Batches of other
/// shapes (the short last one of an epoch) run as ever. Used by one thread; a
/// backward may run on LibTorch's thread of the device.
class GraphedForward {
 public:
  explicit GraphedForward(const c10::Device& device);
  ~GraphedForward();
  GraphedForward(const GraphedForward&) = delete;
  GraphedForward& operator=(const GraphedForward&) = delete;

  /// Outputs of `run`, which runs the block's layers on these inputs, with an
  /// autograd graph that takes gradients back to the inputs and the block's
  /// parameters. Throws UserError where the layers do what no graph can have.
  Tensors forward(const Block& block, const Tensors& inputs, const Pass& pass,
                  const std::function<Tensors()>& run);

 private:
  struct Call;
  struct Slot;
  class ReplayNode;

  /// Where the operands of a forward lie.
  struct Shape {
    std::vector<Layout> inputs;
    std::vector<bool> wanted;  ///< inputs at which gradients are wanted

    bool operator==(const Shape&) const = default;
  };
  /// Batches of a shape that ran as ever; filled by their backwards.
  struct WarmUp {
    Shape shape;
    std::int64_t backwards = 0;
    std::vector<Layout> signals;  ///< the gradients at the outputs
    bool alike = true;            ///< those of all batches
  };

  static bool is_warm(const WarmUp& warm_up);
  Tensors forward_eagerly(const Call& call);
  std::shared_ptr<Slot> free_slot(const Call& call);
  std::shared_ptr<Slot> capture(const Call& call);
  std::shared_ptr<Slot> captured(const Call& call, Block& twin) const;
  static Tensors replay(const Call& call, std::shared_ptr<Slot> slot);
  std::shared_ptr<WarmUp> warm_up_of(const Shape& shape);

  c10::Device device_;
  /// With the block's weights, for captures: autograd has nodes for parameters
  /// that remember the stream in which they were made, and batches in flight
  /// may keep those of the block.
  std::unique_ptr<Block> twin_;
  std::vector<std::shared_ptr<WarmUp>> warm_ups_;
  std::shared_ptr<WarmUp> warm_;  // the shape that is captured
  std::vector<std::shared_ptr<Slot>> slots_;
};

}  // namespace sluice
