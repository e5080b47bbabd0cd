// LARS, against its algorithm written out for numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::lars_test {

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

struct LarsOptions {
  double momentum = 0.9;
  double trust = 0.001;
  double decay = 0;
  bool adapts = true;
};

double rate_at(int step) {
  return 0.5 / (1 + step);  // falls: the velocity must have it in it
}

/// Algorithm 1 of arXiv:1708.03888 for a layer of these weights.
std::vector<double> by_algorithm(int steps, const LarsOptions& options) {
  std::vector<double> w = kFourWeights;
  std::vector<double> v(w.size());
  for (int step = 0; step < steps; ++step) {
    std::vector<double> g;
    for (std::size_t i = 0; i < w.size(); ++i)
      g.push_back(slope(step, i, w[i]));
    const double local =
        options.adapts
            ? options.trust * norm(w) / (norm(g) + options.decay * norm(w))
            : 1;
    for (std::size_t i = 0; i < w.size(); ++i) {
      v[i] = options.momentum * v[i] +
             rate_at(step) * local * (g[i] + options.decay * w[i]);
      w[i] -= v[i];
    }
  }
  return w;
}

std::vector<double> found(int steps, const OptimizerKeys& more,
                          at::IntArrayRef sizes) {
  const at::Tensor w = at::tensor(kFourWeights, at::kDouble).view(sizes);
  OptimizerKeys keys = {{"name", "lars"}};
  keys.insert(keys.end(), more.begin(), more.end());
  const auto rule = make_optimizer(options_of(keys), {{"w", w}});
  const at::Tensor flat = w.view({4});
  for (int step = 0; step < steps; ++step) {
    const at::Tensor g = at::empty({4}, at::kDouble);
    for (std::int64_t i = 0; i < 4; ++i)
      g[i] = slope(step, static_cast<std::size_t>(i), flat[i].item<double>());
    rule->step({g.view(sizes)}, rate_at(step));
  }
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + 4};
}

TEST(Lars, IsItsAlgorithmWrittenOut) {
  const OptimizerKeys keys = {
      {"weight_decay", 0.1}, {"trust", 0.05}, {"momentum", 0.8}};
  const LarsOptions options{.momentum = 0.8, .trust = 0.05, .decay = 0.1};
  const std::vector<double> here = found(50, keys, {2, 2});
  EXPECT_LT(largest_difference(here, by_algorithm(50, options)), 1e-12);
  LarsOptions other = options;
  other.trust = 0.051;
  EXPECT_GT(largest_difference(here, by_algorithm(50, other)), 1e-4);
  other = options;
  other.decay = 0;
  EXPECT_GT(largest_difference(here, by_algorithm(50, other)), 1e-4);
  EXPECT_LT(largest_difference(found(50, {}, {2, 2}), by_algorithm(50, {})),
            1e-12);
}

TEST(Lars, MovesVectorsByTheRateAlone) {
  const LarsOptions plain{.decay = 0.1, .adapts = false};
  const LarsOptions adapted{.decay = 0.1};
  const OptimizerKeys keys = {{"weight_decay", 0.1}};
  const OptimizerKeys all = {{"weight_decay", 0.1}, {"adapt_vectors", true}};
  EXPECT_LT(largest_difference(found(30, keys, {4}), by_algorithm(30, plain)),
            1e-12);
  EXPECT_LT(largest_difference(found(30, all, {4}), by_algorithm(30, adapted)),
            1e-12);
  EXPECT_GT(largest_difference(found(30, keys, {4}), found(30, all, {4})), 0.1);
}

/// Weights [2, 2] after a step with a gradient of this scale.
at::Tensor after_one(double scale, double first = 1) {
  const at::Tensor w =
      at::tensor({3.0, 0.0, 0.0, 4.0}, at::kDouble).view({2, 2}) * first;
  const at::Tensor g =
      at::tensor({1.0, -2.0, 0.5, 0.0}, at::kDouble).view({2, 2}) * scale;
  make_optimizer(options_of({{"name", "lars"}}), {{"w", w}})->step({g}, 2);
  return w;
}

TEST(Lars, StepsAreAsLongWhateverTheGradient) {
  EXPECT_TRUE(after_one(1024).equal(after_one(1)));
  EXPECT_TRUE(after_one(1024).equal(after_one(1.0 / 1024)));
  EXPECT_FALSE(after_one(-1).equal(after_one(1)));
  const at::Tensor w =
      at::tensor({3.0, 0.0, 0.0, 4.0}, at::kDouble).view({2, 2});
  // 0.001 of a norm of 5, at the rate 2.
  EXPECT_NEAR((after_one(1) - w).norm().item<double>(), 0.01, 1e-12);
}

TEST(Lars, WeightsOfZeroMoveByTheRateAlone) {
  EXPECT_NEAR(after_one(1, 0)[0][1].item<double>(), 4, 1e-12);
  EXPECT_TRUE(after_one(0).isfinite().all().item<bool>());
}

TEST(Lars, GroupsHaveADecayAndARateOfTheirOwn) {
  const auto stepped = [](const OptimizerKeys& more) {
    const NamedTensors weights = {{"a.weight", at::ones({2, 2}, at::kDouble)},
                                  {"b.weight", at::ones({2, 2}, at::kDouble)}};
    OptimizerKeys keys = {{"name", "lars"}};
    keys.insert(keys.end(), more.begin(), more.end());
    make_optimizer(options_of(keys), weights)
        ->step({at::ones({2, 2}, at::kDouble) * 0.5,
                at::ones({2, 2}, at::kDouble) * 0.5},
               1);
    return Tensors{weights[0].second, weights[1].second};
  };
  const ConfigNode::Table group = {
      {"match", {.value = ConfigNode::Array{{.value = "a.*"}}}},
      {"lr_scale", {.value = 0.0}}};
  const Tensors grouped =
      stepped({{"groups", ConfigNode::Array{{.value = group}}}});
  EXPECT_TRUE(grouped[0].equal(at::ones({2, 2}, at::kDouble)));
  EXPECT_TRUE(grouped[1].equal(stepped({})[1]));
  EXPECT_FALSE(grouped[1].equal(grouped[0]));
}

}  // namespace sluice::lars_test
