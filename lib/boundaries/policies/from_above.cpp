#include "lib/boundaries/policies/from_above.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace sluice {
namespace {

class GradientFromAbove final : public Lower {
 public:
  GradientFromAbove(Traits traits, double scale)
      : traits_(traits), scale_(scale) {}

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

}  // namespace

MakeBoundary from_above(const Traits& traits, double scale) {
  return [=](const BoundarySite&) {
    return std::make_unique<GradientFromAbove>(traits, scale);
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

void read_weights(Fields& options, std::span<const std::string> views,
                  WeightsAtBackward& weights) {
  Names<WeightsAtBackward> names;
  std::string text = "weights that the backward of a delayed batch sees:";
  for (const WeightViewRow& row : weight_views())
    if (std::count(views.begin(), views.end(), row.name) > 0)
      text += fmt::format("{} {} ({})", text.ends_with(':') ? "" : ",",
                          row.summary, row.name);
  for (const std::string& view : views)
    names.push_back({view, weights_at_backward(view)});
  weights = names.front().value;
  options.key("weights", weights, names, {.text = text});
  if (weights.view == "extrapolate")
    options.key("decay", weights.decay,
                {.text = "of the velocity of the weights: how much a change "
                         "still counts after as many updates as come between "
                         "the forward and the backward of a batch",
                 .min = 0,
                 .max = 1});
}

void read_statistics(Fields& options,
                     std::optional<StatisticsPass>& statistics) {
  options.optional("statistics", statistics,
                   {{"forward", StatisticsPass::forward},
                    {"replay", StatisticsPass::replay},
                    {"both", StatisticsPass::both}},
                   {.text = "which of the two forwards of a batch moves "
                            "BatchNorm's running statistics; required for a "
                            "model with BatchNorm"});
}

}  // namespace sluice
