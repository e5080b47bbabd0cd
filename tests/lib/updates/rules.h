#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/base/config.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// Keys of [optimizer]; those of a table below it dotted.
using OptimizerKeys = std::vector<std::pair<std::string, ConfigNode::Value>>;

inline OptimizerOptions options_of(const OptimizerKeys& keys) {
  ConfigNode table;
  for (const auto& [path, value] : keys)
    table.set_path(path, ConfigNode{.value = value});
  Fields fields(&table, "optimizer");
  OptimizerOptions options;
  options.describe(fields);
  fields.finish();
  return options;
}

/// A gradient that depends on step and weight, of weight i of four.
inline double slope(int step, std::size_t i, double weight) {
  return std::sin(0.7 * step + static_cast<double>(i)) + 0.1 * weight;
}

inline const std::vector<double> kFourWeights = {0.5, -0.5, 1, 2};

/// What a rule makes of them along these gradients, in double.
inline std::vector<double> after(int steps, const OptimizerKeys& keys,
                                 double rate) {
  const at::Tensor weights = at::tensor(kFourWeights, at::kDouble);
  const auto rule = make_optimizer(options_of(keys), {{"w", weights}});
  for (int step = 0; step < steps; ++step) {
    const at::Tensor gradient = at::empty({4}, at::kDouble);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      gradient[at] = slope(step, i, weights[at].item<double>());
    }
    rule->step({gradient}, rate);
  }
  return {weights.data_ptr<double>(), weights.data_ptr<double>() + 4};
}

/// The weight after a step, from the weight, its gradient and the step's
/// number, from 1. It remembers what a rule remembers.
using PlainRule = std::function<double(double weight, double gradient, int t)>;

/// Weights after steps by a rule written out for one number.
inline std::vector<double> plainly_after(int steps, const PlainRule& rule) {
  std::vector<double> weights = kFourWeights;
  for (std::size_t i = 0; i < 4; ++i) {
    PlainRule own = rule;
    for (int step = 0; step < steps; ++step)
      weights[i] = own(weights[i], slope(step, i, weights[i]), step + 1);
  }
  return weights;
}

inline double largest_difference(const std::vector<double>& a,
                                 const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b.at(i)));
  return largest;
}

/// Random, of a step; none for the weight "idle".
inline Tensors gradients_for(const NamedTensors& weights, int step) {
  at::manual_seed(100 + static_cast<std::uint64_t>(step));
  Tensors all;
  for (const auto& [name, weight] : weights)
    all.push_back(name == "idle" ? at::Tensor() : at::randn_like(weight));
  return all;
}

}  // namespace sluice
