#include "lib/blocks/adapters.h"

#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "lib/base/random.h"

namespace sluice {
namespace {

constexpr std::string_view kDown = ".lora_a";
constexpr std::string_view kUp = ".lora_b";

}  // namespace

std::vector<std::pair<std::string, FusedLinearImpl*>> linear_layers_in(
    Layer& layer) {
  std::vector<std::pair<std::string, FusedLinearImpl*>> all;
  for (const auto& item : layer.named_modules("", /*include_self=*/true))
    if (auto* linear = dynamic_cast<FusedLinearImpl*>(item.value().get()))
      all.emplace_back(item.key(), linear);
  return all;
}

void begin_adapters(Layer& layer, std::uint64_t key) {
  const c10::NoGradGuard no_grad;
  for (const auto& [name, linear] : linear_layers_in(layer)) {
    if (!linear->has_adapter()) continue;
    // Drawn on the CPU, so that a device doesn't change its values.
    at::Tensor down = linear->lora_a;
    const at::Tensor values =
        at::empty(down.sizes(), at::TensorOptions().dtype(down.scalar_type()));
    const double bound = 1 / std::sqrt(static_cast<double>(down.size(1)));
    values.uniform_(-bound, bound,
                    at::make_generator<at::CPUGeneratorImpl>(
                        random_key({key, key_part(name + ".lora_a")})));
    down.copy_(values);
    linear->lora_b.zero_();
  }
}

std::shared_ptr<Layer> trained_layer(const LayerSpec& spec, std::uint64_t key) {
  std::shared_ptr<Layer> layer = spec.make();
  layer->initialise(key);
  begin_adapters(*layer, key);
  for (const at::Tensor& parameter : layer->parameters())
    parameter.set_requires_grad(true);
  return layer;
}

bool is_of_adapter(std::string_view name) {
  return name.ends_with(kDown) || name.ends_with(kUp);
}

NamedTensors with_merged_adapters(const NamedTensors& tensors,
                                  const AdapterOptions& options) {
  const c10::NoGradGuard no_grad;
  const std::map<std::string_view, at::Tensor> by_name(tensors.begin(),
                                                       tensors.end());
  NamedTensors merged;
  for (const auto& [name, tensor] : tensors) {
    if (is_of_adapter(name)) continue;
    const std::string linear = name.substr(0, name.rfind('.'));
    const auto up = by_name.find(linear + std::string(kUp));
    if (up == by_name.end() || !name.ends_with(".weight"))
      merged.emplace_back(name, tensor);
    else
      merged.emplace_back(
          name,
          tensor + up->second.matmul(by_name.at(linear + std::string(kDown))) *
                       options.scale());
  }
  return merged;
}

NamedTensors without_missing_adapters(const NamedTensors& tensors,
                                      const NamedTensors& found) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : found) names.insert(name);
  NamedTensors all;
  for (const auto& named : tensors)
    if (!is_of_adapter(named.first) || names.contains(named.first))
      all.push_back(named);
  return all;
}

}  // namespace sluice
