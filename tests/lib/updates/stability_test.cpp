// How large a rate may be when gradients are late: on w^2 / 2, delayed SGD is
// stable if rate < 2 sin(pi / (2 (2 D + 1))).
#include <cmath>
#include <deque>
#include <numbers>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/updates/update_chain.h"
#include "tests/lib/updates/rules.h"

namespace sluice::stability_test {

struct Case {
  double momentum = 0;
  int delay = 0;
  bool spike = false;
};

double most(const std::vector<double>& values, std::size_t from,
            std::size_t to) {
  double largest = 0;
  for (std::size_t i = from; i < to; ++i)
    largest = std::max(largest, std::abs(values[i]));
  return largest;
}

/// Whether w has grown between the second and the last fifth of the steps.
bool grows(const std::vector<double>& w) {
  const std::size_t fifth = w.size() / 5;
  const double last = most(w, 4 * fifth, w.size());
  constexpr double kGone = 1e-100;
  return last > kGone && !(last < most(w, fifth, 2 * fifth));
}

/// Enough for the slowest modes to show.
int steps_for(const Case& of) {
  return of.momentum > 0.95 ? 6000 : 3000;
}

/// w of each step of a chain that gets its gradients late.
std::vector<double> trained(const Case& of, double rate) {
  const at::Tensor weight = at::ones({1}, at::kDouble);
  OptimizerKeys keys = {{"momentum", of.momentum}};
  if (of.spike) keys.emplace_back("correction.name", "spike_compensation");
  UpdateChain chain({.optimizer = options_of(keys)}, {{"w", weight}});
  std::deque<at::Tensor> late(static_cast<std::size_t>(of.delay),
                              weight.clone());
  std::vector<double> seen;
  for (int step = 0; step < steps_for(of); ++step) {
    late.push_back(weight.clone());  // the gradient of w^2 / 2
    Tensors gradients = {late.front()};
    late.pop_front();
    UpdateInfo info{.rate = rate};
    info.in_updates.add(of.delay);
    chain.apply(gradients, info);
    seen.push_back(weight.item<double>());
  }
  return seen;
}

/// Spectral radius of the matrix that takes (w of now and the last D steps, v)
/// to those of the next step.
double spectral_radius(const Case& of, double rate) {
  const double kept = of.spike ? std::pow(of.momentum, of.delay) : 1;
  const double of_gradient = of.spike ? (1 - kept) / (1 - of.momentum) : 0;
  const at::Tensor step = at::zeros({of.delay + 2, of.delay + 2}, at::kDouble);
  auto next = step.accessor<double, 2>();
  const int velocity = of.delay + 1;
  next[0][0] = 1;
  next[0][of.delay] -= rate * (kept + of_gradient);
  next[0][velocity] = -rate * kept * of.momentum;
  for (int i = 1; i <= of.delay; ++i) next[i][i - 1] = 1;
  next[velocity][of.delay] = 1;
  next[velocity][velocity] = of.momentum;
  return at::linalg_eigvals(step).abs().max().item<double>();
}

/// The largest rate at which that is at most 1.
double edge_of(const Case& of) {
  double low = 0;
  double high = 2;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (spectral_radius(of, middle) > 1 ? high : low) = middle;
  }
  return low;
}

void expect_edge(const Case& of, double rate) {
  EXPECT_FALSE(grows(trained(of, 0.98 * rate)))
      << of.momentum << ", " << of.delay << ", " << of.spike;
  EXPECT_TRUE(grows(trained(of, 1.02 * rate)))
      << of.momentum << ", " << of.delay << ", " << of.spike;
}

TEST(StabilityEdge, StabilityEdgeOfDelayedSgdIsThatOfTheFormula) {
  for (const int delay : {0, 1, 3, 6})
    expect_edge({.delay = delay},
                2 * std::sin(std::numbers::pi / (2 * (2 * delay + 1))));
}

using Row = std::pair<Case, double>;

class StabilityTable : public testing::TestWithParam<Row> {};

TEST_P(StabilityTable, IsFoundFromOutside) {
  const auto& [of, edge] = GetParam();
  EXPECT_NEAR(edge_of(of), edge, 0.005 * edge);
  expect_edge(of, edge);
}

INSTANTIATE_TEST_SUITE_P(
    HeavyBall, StabilityTable,
    testing::Values(Row{{0.9, 1}, 0.1}, Row{{0.9, 3}, 0.0348},
                    Row{{0.9, 6}, 0.01815}, Row{{0.99, 1}, 0.01},
                    Row{{0.99, 3}, 0.00335}, Row{{0.99, 6}, 0.001683}));
INSTANTIATE_TEST_SUITE_P(SpikeCompensation, StabilityTable,
                         testing::Values(Row{{0.9, 1, true}, 0.2531},
                                         Row{{0.9, 3, true}, 0.0693},
                                         Row{{0.9, 6, true}, 0.02924},
                                         Row{{0.99, 1, true}, 0.0914},
                                         Row{{0.99, 3, true}, 0.0237},
                                         Row{{0.99, 6, true}, 0.00906}));

}  // namespace sluice::stability_test
