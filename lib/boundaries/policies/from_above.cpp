#include "lib/boundaries/policies/from_above.h"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

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
  return [=](const BoundarySite&) {
    return std::make_unique<FromAbove>(traits, scale);
  };
}

std::vector<std::string> views_of_delays(bool with_replay) {
  std::vector<std::string> names;
  for (const WeightViewRow& row : weight_views())
    if (!row.make.by_window &&
        (with_replay || !row.make.forwards_again || !row.make.of_today))
      names.emplace_back(row.name);
  return names;
}

void read_weights(Fields& options, std::vector<std::string> allowed,
                  WeightsAtBackward& weights) {
  std::string name = allowed.front();
  std::string text = "weights that the backward of a delayed batch sees:";
  for (const WeightViewRow& row : weight_views())
    if (std::count(allowed.begin(), allowed.end(), row.name) > 0)
      text += fmt::format("{} {} ({})", text.ends_with(':') ? "" : ",",
                          row.summary, row.name);
  options.key("weights", name,
              {.text = std::move(text), .allowed = std::move(allowed)});
  weights = weights_at_backward(name);
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
