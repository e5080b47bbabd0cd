#include "experiments/config/rules/layer_trial.h"

#include <exception>

#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "lib/tensors/error_text.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

/// Samples of zeros, in the shape and type in which the source gives samples.
at::Tensor zero_samples(const Model& model, std::int64_t samples) {
  std::vector<std::int64_t> sizes = {samples};
  if (model.trains_on_pairs) sizes.push_back(2);
  sizes.insert(sizes.end(), model.sample.shape.begin(),
               model.sample.shape.end());
  return at::zeros(sizes, model.sample.is_text ? at::kLong : at::kFloat);
}

bool has_lost_statistics(const Layer& layer) {
  for (const auto& buffer : layer.named_buffers())
    if (buffer.key().ends_with("running_var") &&
        !at::isfinite(buffer.value()).all().item<bool>())
      return true;
  return false;
}

}  // namespace

LayerTrial try_layers(const Model& model, std::int64_t samples,
                      Precision precision) {
  const GeneratorGuard kept;
  const c10::AutoGradMode gradients(true);
  const PrecisionScope scope(precision);
  LayerTrial trial;
  Tensors values = {zero_samples(model, samples)};
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    try {
      const auto layer = model.layers[i].make();
      layer->train();
      values = layer->forward(values, {.layer = number});
      if (has_lost_statistics(*layer)) {
        trial.fault = LayerFault{number, "its running variance became NaN"};
        return trial;
      }
    } catch (const std::exception& error) {
      trial.fault = LayerFault{number, text_of(error)};
      return trial;
    }
    for (at::Tensor& value : values) value = value.detach();
    trial.outputs.push_back(values);
  }
  return trial;
}

}  // namespace sluice
