#include "experiments/api/own_model.h"

#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/engines/control.h"
#include "lib/tensors/generator_kept.h"

namespace sluice {
namespace {

NamedTensors tensors_of(const Layer& layer) {
  NamedTensors all;
  for (const auto& item : layer.named_parameters())
    all.emplace_back(item.key(), item.value());
  for (const auto& item : layer.named_buffers())
    all.emplace_back(item.key(), item.value());
  return all;
}

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

std::shared_ptr<Layer> make_first(const LayerFactory& make, std::size_t index) {
  std::shared_ptr<Layer> layer;
  try {
    layer = make();
  } catch (const std::exception& error) {
    throw UserError("layer {}: {}", index, text_of(error));
  }
  if (!layer) throw UserError("layer {}: its factory gave nothing", index);
  return layer;
}

/// The first is kept for its weights; all others are copies of it.
LayerSpec spec_of(const LayerFactory& factory, const NamedTensors& weights,
                  std::size_t index,
                  const std::shared_ptr<std::recursive_mutex>& turn) {
  LayerSpec spec;
  spec.name = fmt::format("layer {}", index);
  spec.make = [=, source = spec.name + " as it was first made"] {
    const std::lock_guard lock(*turn);
    const GeneratorKept kept;
    std::shared_ptr<Layer> layer = factory();
    copy_by_name(weights, tensors_of(*layer), source);
    return layer;
  };
  return spec;
}

/// A training forward, as it will be.
Tensors try_layer(Layer& layer, const Tensors& inputs, std::size_t index) {
  const GeneratorKept kept;
  Tensors outputs;
  try {
    outputs =
        layer.forward(inputs, {.layer = static_cast<std::int64_t>(index)});
  } catch (const std::exception& error) {
    throw UserError("layer {} can't take an input of {}: {}", index,
                    shape_text(inputs[0]), text_of(error));
  }
  if (kept.was_used())
    throw UserError(
        "layer {} draws from the process-wide generator, so its numbers "
        "would change with the cut; use sluice::Dropout (modules/dropout.h), "
        "or a Layer that draws from Pass::generator",
        index);
  return outputs;
}

SampleShape sample_shape(const at::Tensor& batch) {
  return batch.sizes().slice(1).vec();
}

void check_example(const at::Tensor& example) {
  if (!example.defined() || example.dim() < 2 || example.size(0) < 1)
    throw UserError(
        "`example` must be a batch [N, ...] like those of step(), say "
        "torch::zeros({{1, 784}})");
  if (example.scalar_type() != at::kFloat && example.scalar_type() != at::kLong)
    throw UserError("`example` must be float32, or int64 tokens; it is {}",
                    c10::toString(example.scalar_type()));
}

/// What the losses of lib/ take.
void check_output(const Tensors& outputs, bool is_text) {
  const std::int64_t dimensions = is_text ? 3 : 2;
  if (outputs.size() != 1 || outputs[0].dim() != dimensions)
    throw UserError("the last layer gives {}; a loss takes {}",
                    shape_text(outputs[0]),
                    is_text ? "[N, T, classes]" : "[N, classes]");
}

}  // namespace

OwnModel make_own_model(const std::vector<LayerFactory>& factories,
                        const at::Tensor& example) {
  if (factories.empty()) throw UserError("a network needs `layers`");
  check_example(example);
  const at::NoGradGuard no_grad;
  OwnModel own{.turn = std::make_shared<std::recursive_mutex>()};
  std::vector<NamedTensors> first;
  for (std::size_t i = 0; i < factories.size(); ++i) {
    own.layers.push_back(make_first(factories[i], i));
    first.push_back(copies_of(tensors_of(*own.layers[i])));
    own.model.layers.push_back(spec_of(factories[i], first[i], i, own.turn));
  }
  // BatchNorm in training wants more than one sample.
  Tensors values = {at::cat({example, example})};
  for (std::size_t i = 0; i < factories.size(); ++i) {
    values = try_layer(*own.layers[i], values, i);
    own.model.layers[i].output = sample_shape(values.at(0));
    // The trial leaves no trace in BatchNorm's statistics.
    copy_by_name(first[i], tensors_of(*own.layers[i]), "the layer itself");
  }
  const bool is_text = example.scalar_type() == at::kLong;
  check_output(values, is_text);
  own.model.sample = {.shape = sample_shape(example),
                      .classes = values[0].size(-1),
                      .is_text = is_text};
  return own;
}

}  // namespace sluice
