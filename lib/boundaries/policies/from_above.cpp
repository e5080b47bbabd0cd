#include "lib/boundaries/policies/from_above.h"

#include <array>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

class FromAbove final : public Lower {
 public:
  FromAbove(Traits traits, double scale) : traits_(traits), scale_(scale) {}

  Traits traits() const override { return traits_; }

  Signal signal(const BatchContext& context) override {
    Signal signal;
    signal.gradients = passed(context.from_above);
    return signal;
  }

  Tensors passed(const Tensors& from_above) override {
    Tensors scaled = from_above;
    if (scale_ != 1)
      for (at::Tensor& gradient : scaled) gradient = gradient * scale_;
    return scaled;
  }

 private:
  Traits traits_;
  double scale_;
};

constexpr std::array<std::pair<const char*, WeightsAtBackward>, 4> kWeights = {{
    {"stash", WeightsAtBackward::stash},
    {"recompute", WeightsAtBackward::recompute},
    {"mixed", WeightsAtBackward::mixed},
    {"current", WeightsAtBackward::current},
}};

constexpr std::array<std::pair<const char*, StatisticsAt>, 3> kStatistics = {{
    {"forward", StatisticsAt::forward},
    {"replay", StatisticsAt::replay},
    {"both", StatisticsAt::both},
}};

template <class Names, class Value>
void set_named(const Names& names, std::string_view name, Value& value) {
  for (const auto& [each, meaning] : names)
    if (each == name) value = meaning;
}

}  // namespace

MakeBoundary from_above(const Traits& traits, double scale) {
  return
      [=](const Site&) { return std::make_unique<FromAbove>(traits, scale); };
}

void read_weights(Fields& options, std::vector<std::string> allowed,
                  WeightsAtBackward& weights) {
  std::string name = allowed.front();
  options.key(
      "weights", name,
      {.text = "those that the backward of a delayed batch sees: of its "
               "forward, kept (stash) or with the graph built anew "
               "(recompute); today's under the activations of then "
               "(mixed), or with the input replayed (current)",
       .allowed = std::move(allowed)});
  set_named(kWeights, name, weights);
}

void read_statistics(Fields& options, std::optional<StatisticsAt>& statistics) {
  constexpr const char* kText =
      "which of the two forwards of a batch moves BatchNorm's running "
      "statistics: \"forward\", \"replay\" or \"both\"; a model with BatchNorm "
      "must have it said";
  if (!options.has("statistics")) {
    // Described, but left out of the resolved config.
    ConfigNode none;
    options.key("statistics", none, "string", {.text = kText});
    return;
  }
  std::string name;
  options.key("statistics", name,
              {.text = kText, .allowed = {"forward", "replay", "both"}});
  statistics.emplace();
  set_named(kStatistics, name, *statistics);
}

}  // namespace sluice
