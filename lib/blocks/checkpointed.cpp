#include "lib/blocks/checkpointed.h"

#include <cstddef>
#include <set>
#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/autograd.h>

#include "lib/base/error.h"
#include "lib/blocks/block.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

using torch::autograd::AutogradContext;

/// Layers, and all that a second forward of a batch needs beside its inputs.
struct Segment : torch::CustomClassHolder {
  Layers layers;
  Pass pass;
  Precision precision = Precision::fp32;
  c10::DeviceType device = c10::DeviceType::CPU;

  Tensors run(const Tensors& inputs) const {
    Tensors values = inputs;
    Pass each = pass;
    for (const auto& layer : layers) {
      values = layer->forward(values, each);
      ++each.layer;
    }
    return values;
  }

  /// The trained ones, each once, also where layers share it.
  Tensors parameters() const {
    Tensors all;
    std::set<const c10::TensorImpl*> seen;
    for (const auto& layer : layers)
      for (const at::Tensor& parameter : layer->parameters())
        if (parameter.requires_grad() &&
            seen.insert(parameter.unsafeGetTensorImpl()).second)
          all.push_back(parameter);
    return all;
  }

  Tensors buffers() const {
    Tensors all;
    for (const auto& layer : layers)
      for (const at::Tensor& buffer : layer->buffers()) all.push_back(buffer);
    return all;
  }
};

/// An evaluation may lie between a forward and its backward.
class TrainingScope {
 public:
  explicit TrainingScope(const Layers& layers)
      : layers_(layers), before_(layers.front()->is_training()) {
    set(true);
  }
  ~TrainingScope() { set(before_); }
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  void set(bool training) const {
    if (before_) return;
    for (const auto& layer : layers_) layer->train(training);
  }

  const Layers& layers_;
  bool before_;
};

/// Leaves in the place of inputs that want gradients.
Tensors leaves_of(const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
  return leaves;
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  /// LibTorch looks for tensors with gradients in lists of this type alone.
  static Tensors forward(AutogradContext* ctx,
                         const c10::intrusive_ptr<Segment>& segment,
                         at::TensorList inputs, at::TensorList /*parameters*/) {
    // A weight whose output nothing uses has no gradient, rather than zeros,
    // which an optimizer would step by.
    ctx->set_materialize_grads(false);
    ctx->saved_data["segment"] = c10::IValue::make_capsule(segment);
    ctx->save_for_backward(inputs.vec());
    return segment->run(inputs.vec());
  }

  /// A gradient for each argument of forward(), in their order.
  static Tensors backward(AutogradContext* ctx, const Tensors& gradients) {
    if (at::GradMode::is_enabled())
      throw UserError(
          "checkpoint_layers gives gradients of the first order alone, and "
          "here "
          "is one that shall have a graph: leave the key out");
    const auto holder = ctx->saved_data["segment"].toCapsule();
    const auto& segment = static_cast<const Segment&>(*holder);
    const Tensors leaves = leaves_of(ctx->get_saved_variables());
    Tensors all = leaves;
    for (const at::Tensor& parameter : segment.parameters())
      all.push_back(parameter);
    Tensors wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].requires_grad() || !ctx->needs_input_grad(i)) continue;
      wanted.push_back(all[i]);
      places.push_back(i + 1);
    }
    Tensors results(all.size() + 1);
    const Tensors found =
        gradients_at_inputs(segment, leaves, wanted, gradients);
    for (std::size_t i = 0; i < found.size(); ++i)
      results[places[i]] = found[i];
    return results;
  }

 private:
  static Tensors gradients_at_inputs(const Segment& segment,
                                     const Tensors& leaves,
                                     const Tensors& wanted,
                                     const Tensors& gradients) {
    const at::AutoGradMode with_graph(true);
    const TrainingScope training(segment.layers);
    const BufferGuard kept(segment.buffers());
    const Tensors outputs = [&] {
      const PrecisionScope precision(segment.precision, segment.device);
      return segment.run(leaves);
    }();
    Tensors reached;
    Tensors signal;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      reached.push_back(outputs[i]);
      signal.push_back(gradients[i]);
    }
    if (reached.empty() || wanted.empty()) return {};
    return torch::autograd::grad(reached, wanted, signal,
                                 /*retain_graph=*/false,
                                 /*create_graph=*/false,
                                 /*allow_unused=*/true);
  }
};

}  // namespace

Tensors run_checkpointed(const Layers& layers, const Pass& pass,
                         const Tensors& inputs, const c10::Device& device) {
  auto segment = c10::make_intrusive<Segment>();
  segment->layers = layers;
  segment->pass = pass;
  if (at::autocast::is_autocast_enabled(device.type()))
    segment->precision = Precision::bf16;
  segment->device = device.type();
  const Tensors parameters = segment->parameters();
  return Checkpoint::apply(segment, at::TensorList(inputs),
                           at::TensorList(parameters));
}

}  // namespace sluice
