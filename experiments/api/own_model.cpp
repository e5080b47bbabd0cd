#include "experiments/api/own_model.h"

#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "experiments/api/drawn_layer.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/engines/control.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

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
    const GeneratorGuard kept;
    std::shared_ptr<Layer> layer = factory();
    copy_by_name(weights, tensors_of_layer(*layer), source);
    return layer;
  };
  return spec;
}

/// Runs a layer forward as in training.
Tensors try_layer(Layer& layer, const Tensors& inputs, std::size_t index) {
  const GeneratorGuard kept;
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

/// Checks that the outputs are such as the losses of lib/ take.
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
    first.push_back(copies_of_tensors(tensors_of_layer(*own.layers[i])));
    own.model.layers.push_back(spec_of(factories[i], first[i], i, own.turn));
  }
  // Two samples: BatchNorm in training wants more than one.
  Tensors values = {at::cat({example, example})};
  for (std::size_t i = 0; i < factories.size(); ++i) {
    values = try_layer(*own.layers[i], values, i);
    own.model.layers[i].output = sample_shape(values.at(0));
    // The trial leaves no trace in BatchNorm's statistics.
    copy_by_name(first[i], tensors_of_layer(*own.layers[i]),
                 "the layer itself");
  }
  const bool is_text = example.scalar_type() == at::kLong;
  check_output(values, is_text);
  own.model.sample = {.shape = sample_shape(example),
                      .classes = values[0].size(-1),
                      .is_text = is_text};
  return own;
}

namespace {

/// Multiply-adds of a linear layer or a convolution, and an estimate for other
/// layers: every weight once at each place of the output, [C, H, W] or [T, C].
double multiply_adds(const Layer& layer, const SampleShape& output) {
  double weights = 0;
  for (const auto& parameter : layer.parameters())
    if (parameter.dim() > 1) weights += static_cast<double>(parameter.numel());
  double places = 1;
  if (output.size() == 3)
    places = static_cast<double>(output[1]) * static_cast<double>(output[2]);
  else if (output.size() == 2)
    places = static_cast<double>(output[0]);
  return weights * places;
}

}  // namespace

Model model_drawn_by_seed(const std::vector<LayerFactory>& factories,
                          const OwnModel& own) {
  Model model = own.model;
  std::vector<std::shared_ptr<LayerDraws>> all;
  for (std::size_t i = 0; i < factories.size(); ++i) {
    all.push_back(std::make_shared<LayerDraws>(factories[i], own.turn));
    LayerSpec& spec = model.layers[i];
    spec.make = [draws = all[i]] { return make_drawn_layer(draws); };
    spec.flops = multiply_adds(*own.layers[i], spec.output);
  }
  model.draw = [all](std::uint64_t seed) {
    // Each layer draws with the key that make_layers() gives it.
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i]->with_key(random_key({seed, i, key_part("weights")}));
  };
  return model;
}

std::string describe_layers(const OwnModel& own) {
  std::string text;
  for (std::size_t i = 0; i < own.layers.size(); ++i) {
    std::int64_t weights = 0;
    for (const auto& parameter : own.layers[i]->parameters())
      weights += parameter.numel();
    text += fmt::format("{}[{}] {}", text.empty() ? "" : "; ",
                        fmt::join(own.model.layers[i].output, ", "), weights);
  }
  return text;
}

}  // namespace sluice
