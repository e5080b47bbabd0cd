#include "experiments/config/fine_tuning.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lib/base/name_pattern.h"
#include "lib/blocks/adapters.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

using Patterns = std::vector<std::string>;

std::string full_name(std::size_t layer, const std::string& name) {
  return fmt::format("layers.{}{}{}", layer, name.empty() ? "" : ".", name);
}

/// What the patterns of a model may name.
struct ModelNames {
  std::vector<std::string> weights = {};
  std::vector<std::string> linear_layers = {};
};

ModelNames names_in(const Model& model) {
  const GeneratorGuard kept;
  ModelNames names;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const std::shared_ptr<Layer> layer = model.layers[i].make();
    for (const auto& item : layer->named_parameters())
      names.weights.push_back(full_name(i, item.key()));
    for (const auto& [name, linear] : linear_layers_in(*layer))
      names.linear_layers.push_back(full_name(i, name));
  }
  return names;
}

void check_patterns(std::string_view key, const Patterns& patterns,
                    const std::vector<std::string>& names,
                    std::string_view what, const Fields& top) {
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const std::string& name) {
      return matches_pattern(pattern, name);
    };
    if (std::any_of(names.begin(), names.end(), fits)) continue;
    top.reject(key, names.empty()
                        ? fmt::format("the model has no {}", what)
                        : fmt::format("'{}' matches no {}; one is '{}'",
                                      pattern, what, names.front()));
  }
}

/// Freezes and adapts layer i, which is new.
void prepare(const FineTuning& tuning, std::size_t i, Layer& layer) {
  for (const auto& item : layer.named_parameters())
    if (!tuning.trains(full_name(i, item.key())))
      item.value().set_requires_grad(false);
  if (tuning.adapter.rank == 0) return;
  for (const auto& [name, linear] : linear_layers_in(layer))
    if (tuning.adapts(full_name(i, name))) linear->adapt(tuning.adapter);
}

}  // namespace

bool FineTuning::is_there() const {
  return !train.empty() || !freeze.empty() || adapter.rank > 0;
}

bool FineTuning::trains(const std::string& name) const {
  const bool is_chosen =
      train.empty() ? adapter.rank == 0 : matches_any(train, name);
  return is_chosen && !matches_any(freeze, name);
}

bool FineTuning::adapts(const std::string& layer) const {
  return matches_any(adapted, layer);
}

void FineTuning::describe(Fields& fields) {
  fields.key("train", train,
             {.text = "patterns of the model's weights that train, as in "
                      "[\"layers.5.*\"]; the others stay as initial_weights "
                      "has them. []: all, or with lora none. What heads have "
                      "of their own always trains"});
  fields.key("freeze", freeze,
             {.text = "patterns of weights that don't train, of those that "
                      "otherwise would, as in [\"layers.0.*\"]"});
  fields.section(
      "lora", "low-rank adapters beside linear layers", [&](Fields& part) {
        part.key("rank", adapter.rank,
                 {.text = "of each adapter; 0: there are none",
                  .min = 0,
                  .max = 65536});
        part.key("alpha", adapter.alpha,
                 {.text = "an adapter's output counts alpha / rank"});
        part.key("layers", adapted,
                 {.text = "patterns of linear layers, as in "
                          "[\"*.attention.qkv\"]"});
        const bool is_written = adapter.alpha != AdapterOptions().alpha ||
                                adapted != FineTuning().adapted;
        if (adapter.rank > 0 && adapted.empty())
          part.reject("layers",
                      "leaves no layer to adapt: name some, or leave it out");
        if (adapter.rank == 0 && is_written)
          part.reject(adapted == FineTuning().adapted ? "alpha" : "layers",
                      "there are no adapters: set fine_tune.lora.rank too");
      });
}

void fine_tune(const FineTuning& tuning, const Fields& top, Model& model) {
  if (!tuning.is_there()) return;
  const ModelNames names = names_in(model);
  constexpr std::string_view kWeight = "weight";
  check_patterns("fine_tune.train", tuning.train, names.weights, kWeight, top);
  check_patterns("fine_tune.freeze", tuning.freeze, names.weights, kWeight,
                 top);
  if (tuning.adapter.rank > 0)
    check_patterns("fine_tune.lora.layers", tuning.adapted, names.linear_layers,
                   "linear layer that may have an adapter", top);
  const bool any_trains =
      tuning.adapter.rank > 0 ||
      std::any_of(names.weights.begin(), names.weights.end(),
                  [&](const std::string& name) { return tuning.trains(name); });
  if (!any_trains)
    top.reject("fine_tune", "no weight of the model is left to train");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& spec = model.layers[i];
    spec.make = [make = std::move(spec.make), tuning, i] {
      std::shared_ptr<Layer> layer = make();
      prepare(tuning, i, *layer);
      return layer;
    };
  }
}

}  // namespace sluice
