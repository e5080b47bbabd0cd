// LAMB, against its algorithm written out for numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::lamb_test {

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double decay = 0;
  bool adapts = true;
};

constexpr double kRate = 0.02;

/// Algorithm 2 of arXiv:1904.00962 for a layer of these weights, phi(z) = z.
std::vector<double> by_algorithm(int steps, const LambOptions& options) {
  std::vector<double> w = kFourWeights;
  std::vector<double> m(w.size());
  std::vector<double> v(w.size());
  for (int t = 1; t <= steps; ++t) {
    std::vector<double> change;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = slope(t - 1, i, w[i]);
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(options.beta1, t));
      const double variance = v[i] / (1 - std::pow(options.beta2, t));
      change.push_back(mean / (std::sqrt(variance) + options.epsilon) +
                       options.decay * w[i]);
    }
    const double ratio = options.adapts ? norm(w) / norm(change) : 1;
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] -= kRate * ratio * change[i];
  }
  return w;
}

std::vector<double> found(int steps, const OptimizerKeys& more,
                          at::IntArrayRef sizes, const char* name = "lamb") {
  const at::Tensor w = at::tensor(kFourWeights, at::kDouble).view(sizes);
  OptimizerKeys keys = {{"name", name}};
  keys.insert(keys.end(), more.begin(), more.end());
  const auto rule = make_optimizer(options_of(keys), {{"w", w}});
  const at::Tensor flat = w.view({4});
  for (int step = 0; step < steps; ++step) {
    const at::Tensor g = at::empty({4}, at::kDouble);
    for (std::int64_t i = 0; i < 4; ++i)
      g[i] = slope(step, static_cast<std::size_t>(i), flat[i].item<double>());
    rule->step({g.view(sizes)}, kRate);
  }
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + 4};
}

TEST(Lamb, IsItsAlgorithmWrittenOut) {
  const OptimizerKeys keys = {
      {"weight_decay", 0.1}, {"beta1", 0.8}, {"beta2", 0.99}, {"epsilon", 0.1}};
  const LambOptions options{
      .beta1 = 0.8, .beta2 = 0.99, .epsilon = 0.1, .decay = 0.1};
  const std::vector<double> here = found(50, keys, {2, 2});
  EXPECT_LT(largest_difference(here, by_algorithm(50, options)), 1e-11);
  LambOptions other = options;
  other.decay = 0;
  EXPECT_GT(largest_difference(here, by_algorithm(50, other)), 1e-3);
  other = options;
  other.epsilon = 0.2;
  EXPECT_GT(largest_difference(here, by_algorithm(50, other)), 1e-3);
  EXPECT_LT(largest_difference(found(50, {}, {2, 2}), by_algorithm(50, {})),
            1e-11);
}

TEST(Lamb, MovesVectorsAsAdamWithoutRatio) {
  const LambOptions plain{.adapts = false};
  EXPECT_LT(largest_difference(found(30, {}, {4}), by_algorithm(30, plain)),
            1e-11);
  EXPECT_LT(largest_difference(found(30, {}, {4}),
                               found(30, {{"epsilon", 1e-6}}, {4}, "adam")),
            1e-11);
  const OptimizerKeys all = {{"adapt_vectors", true}};
  EXPECT_LT(largest_difference(found(30, all, {4}), by_algorithm(30, {})),
            1e-11);
  EXPECT_GT(largest_difference(found(30, {}, {4}), found(30, all, {4})), 1e-2);
}

TEST(Lamb, AStepHasTheRatesPartOfTheWeightsLength) {
  const at::Tensor w =
      at::tensor({3.0, 0.0, 0.0, 4.0}, at::kDouble).view({2, 2});
  const at::Tensor before = w.clone();
  const auto rule = make_optimizer(
      options_of({{"name", "lamb"}, {"weight_decay", 0.1}}), {{"w", w}});
  rule->step({at::tensor({1.0, 2.0, -3.0, 4.0}, at::kDouble).view({2, 2})},
             0.01);
  EXPECT_NEAR((w - before).norm().item<double>(), 0.05, 1e-12);
}

TEST(Lamb, WeightsOfZeroMoveAsByAdam) {
  const at::Tensor w = at::zeros({2, 2}, at::kDouble);
  make_optimizer(options_of({{"name", "lamb"}}), {{"w", w}})
      ->step({at::tensor({1.0, -2.0, 0.0, 4.0}, at::kDouble).view({2, 2})},
             0.01);
  EXPECT_TRUE(w.allclose(
      at::tensor({-0.01, 0.01, 0.0, -0.01}, at::kDouble).view({2, 2}), 1e-5));
}

}  // namespace sluice::lamb_test
