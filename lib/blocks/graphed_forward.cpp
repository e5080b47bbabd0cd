#include "lib/blocks/graphed_forward.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "lib/base/error.h"
#include "lib/blocks/graph_capture.h"
#include "lib/blocks/mask_draws.h"
#include "lib/tensors/gpu/device_graph.h"
#include "lib/tensors/gradients.h"
#include "lib/tensors/leaves.h"

namespace sluice {
namespace {

/// Most shapes that are waited for, until they come often enough for a graph.
constexpr std::size_t kMostWarmUps = 8;
/// Batches of a block that have graphs; more of them in flight run as ever.
constexpr std::size_t kMostSlots = 64;

bool is_laid_out_plainly(const at::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.requires_grad() &&
         tensor.is_non_overlapping_and_dense();
}

}  // namespace

/// The arguments of a forward().
struct GraphedForward::Call {
  const Block& block;
  const Tensors& inputs;
  const Pass& pass;
  const std::function<Tensors()>& run;

  Shape shape() const {
    Shape shape{.inputs = layouts_of(inputs), .wanted = {}};
    for (const at::Tensor& input : inputs)
      shape.wanted.push_back(input.requires_grad());
    return shape;
  }
  /// Addresses of all that graphs use without memory of their own.
  std::vector<const void*> addresses() const {
    std::vector<const void*> all;
    for (const NamedTensors* each : {&block.weights(), &block.buffers()})
      for (const auto& [name, tensor] : *each)
        all.push_back(tensor.const_data_ptr());
    return all;
  }
};

/// The graphs of a batch in flight, and memory of theirs. Held by the batch's
/// autograd graph while it is in flight.
struct GraphedForward::Slot {
  std::vector<const void*> addresses;
  Tensors inputs;
  MaskDraws draws = {};
  std::unique_ptr<DeviceGraph> forward = nullptr;
  Tensors outputs = {};
  Tensors signals = {};  ///< gradients at the outputs
  std::unique_ptr<DeviceGraph> backward = nullptr;
  Tensors gradients = {};  ///< at inputs and parameters that want one
};

/// The autograd graph of a batch: one node, whose work is a replay.
class GraphedForward::ReplayNode final : public torch::autograd::Node {
 public:
  explicit ReplayNode(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& signals) override {
    SLUICE_CHECK(slot_ != nullptr, "a graph is taken back once too often");
    copy_values(signals, slot_->signals);
    slot_->backward->replay();
    return laid_out_copies(slot_->gradients);
  }

  void release_variables() override { slot_.reset(); }
  std::string name() const override { return "SluiceGraph"; }

 private:
  std::shared_ptr<Slot> slot_;
};

namespace {

/// LibTorch's type of pointers to nodes depends on its version.
using NodePointer = decltype(torch::autograd::Edge::function);

template <class Node, class Held, class Pointer = NodePointer>
Pointer make_node(Held held) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Node>(std::move(held));
  else
    return c10::make_intrusive<Node>(std::move(held));
}

}  // namespace

GraphedForward::GraphedForward(const c10::Device& device) : device_(device) {}

GraphedForward::~GraphedForward() = default;

Tensors GraphedForward::forward(const Block& block, const Tensors& inputs,
                                const Pass& pass,
                                const std::function<Tensors()>& run) {
  const Call call{block, inputs, pass, run};
  if (!warm_ || warm_->shape != call.shape()) return forward_eagerly(call);
  std::shared_ptr<Slot> slot = free_slot(call);
  return slot ? replay(call, std::move(slot)) : run();  // too many in flight
}

/// Warm-up of a shape; nullptr: the shape isn't waited for.
std::shared_ptr<GraphedForward::WarmUp> GraphedForward::warm_up_of(
    const Shape& shape) {
  for (const auto& known : warm_ups_)
    if (known->shape == shape) return known;
  if (warm_ || warm_ups_.size() == kMostWarmUps) return nullptr;
  warm_ups_.push_back(
      std::make_shared<WarmUp>(WarmUp{.shape = shape, .signals = {}}));
  return warm_ups_.back();
}

/// Whether enough is known of the gradients that come back, at all outputs.
bool GraphedForward::is_warm(const WarmUp& warm_up) {
  return warm_up.alike && warm_up.backwards >= kGraphWarmUps &&
         std::none_of(
             warm_up.signals.begin(), warm_up.signals.end(),
             [](const Layout& layout) { return layout.device.is_cpu(); });
}

/// Notes how the gradients lie that come back.
Tensors GraphedForward::forward_eagerly(const Call& call) {
  Tensors outputs = call.run();
  const std::shared_ptr<WarmUp> warm_up =
      warm_ ? nullptr : warm_up_of(call.shape());
  const bool can_be =
      std::all_of(outputs.begin(), outputs.end(), is_laid_out_plainly);
  if (!warm_up || !can_be) return outputs;
  if (is_warm(*warm_up)) warm_ = warm_up;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i].register_hook([warm_up, i, count = outputs.size()](
                                 const at::Tensor& gradient) {
      const Layout layout = layout_of(gradient);
      std::vector<Layout>& known = warm_up->signals;
      known.resize(count);
      const bool is_first = known[i].sizes.empty() && known[i].device.is_cpu();
      warm_up->alike &= is_first || known[i] == layout;
      known[i] = layout;
      if (i == 0) ++warm_up->backwards;
    });
  return outputs;
}

/// A free slot, a new one if need be; nullptr: there are enough.
std::shared_ptr<GraphedForward::Slot> GraphedForward::free_slot(
    const Call& call) {
  const std::vector<const void*> addresses = call.addresses();
  for (const auto& slot : slots_)
    if (slot.use_count() == 1 && slot->addresses == addresses) return slot;
  // Graphs whose weights have moved are of no use any more.
  std::erase_if(slots_, [&](const auto& slot) {
    return slot.use_count() == 1 && slot->addresses != addresses;
  });
  if (slots_.size() == kMostSlots) return nullptr;
  slots_.push_back(capture(call));
  return slots_.back();
}

std::shared_ptr<GraphedForward::Slot> GraphedForward::capture(
    const Call& call) {
  if (!twin_) twin_ = std::make_unique<Block>(call.block.twin());
  twin_->share_weights(call.block);
  twin_->share_buffers(call.block);
  std::shared_ptr<Slot> slot;
  capture_for_graphs(call.block.index(), "the layers",
                     [&] { slot = captured(call, *twin_); });
  return slot;
}

std::shared_ptr<GraphedForward::Slot> GraphedForward::captured(
    const Call& call, Block& twin) const {
  auto slot = std::make_shared<Slot>();
  slot->addresses = call.addresses();
  slot->inputs = laid_out_copies(call.inputs);
  Tensors leaves, targets;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    leaves.push_back(slot->inputs[i].detach());
    if (!call.inputs[i].requires_grad()) continue;
    targets.push_back(leaves.back().requires_grad_());
  }
  for (const auto& [name, parameter] : twin.parameters())
    if (parameter.requires_grad()) targets.push_back(parameter);
  Pass pass = call.pass;
  pass.draws = &slot->draws;
  Tensors outputs;
  const auto capture = [&] {
    slot->forward = std::make_unique<DeviceGraph>(
        device_, [&] { outputs = twin.forward(leaves, pass); });
  };
  capture();
  if (!slot->draws.empty()) {
    outputs.clear();
    slot->draws.begin_again();
    capture();
  }
  for (const Layout& layout : warm_->signals)
    slot->signals.push_back(empty_tensor(layout));
  slot->backward = std::make_unique<DeviceGraph>(device_, [&] {
    slot->gradients = gradients_at(targets, outputs, slot->signals);
  });
  slot->outputs = leaves_of(outputs, false);
  return slot;
}

/// The outputs leave the graph's memory, which the next batch overwrites.
Tensors GraphedForward::replay(const Call& call, std::shared_ptr<Slot> slot) {
  copy_values(call.inputs, slot->inputs);
  slot->draws.draw(call.pass.batch);
  slot->forward->replay();
  Tensors outputs = laid_out_copies(slot->outputs);
  Tensors wanted;
  for (const at::Tensor& input : call.inputs)
    if (input.requires_grad()) wanted.push_back(input);
  for (const auto& [name, parameter] : call.block.parameters())
    if (parameter.requires_grad()) wanted.push_back(parameter);
  const NodePointer node = make_node<ReplayNode>(std::move(slot));
  node->set_next_edges(torch::autograd::collect_next_edges(wanted));
  for (at::Tensor& output : outputs) torch::autograd::set_history(output, node);
  return outputs;
}

}  // namespace sluice
