// Corrections of stale gradients in whole runs of three blocks, against an
// oracle that keeps all weights of the past and writes each correction out.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"
#include "tests/oracles/delay_oracle.h"

namespace sluice::corrected_runs_test {

using Update = DelayOracle::Update;

std::string net_with(const std::string& optimizer,
                     const std::string& weights = "stash") {
  return "turns = 30\nblocks = ['0-1', '2-3', '4-']\n"
         "model = {hidden = [24, 20, 24, 20, 16]}\n"
         "boundary = {policy = 'delayed_gradient', weights = '" +
         weights + "'}\noptimizer = {lr = 0.1" + optimizer + "}\n";
}

Applications applications(const std::string& lines) {
  Training training(small_experiment(lines));
  return training.train_and_record();
}

Applications expected(const std::string& lines,
                      const std::function<void(const Update&)>& update) {
  return DelayOracle(Training(small_experiment(lines)), {.update = update})
      .train();
}

/// The run follows the oracle to rounding, and goes elsewhere uncorrected.
void expect_corrected(const std::string& corrected,
                      const std::string& uncorrected,
                      const std::function<void(const Update&)>& update) {
  const Applications run = applications(net_with(corrected));
  const Applications plain = expected(net_with(corrected), update);
  const Applications without = applications(net_with(uncorrected));
  for (int block = 1; block <= 3; ++block) {
    ASSERT_EQ(run.at(block).size(), 30U);
    EXPECT_LT(distance(run.at(block), plain.at(block)), 2e-6) << block;
  }
  EXPECT_GT(distance(run.at(1), without.at(1)), 1e-3);
}

/// w -= rate(update) g.
std::function<void(const Update&)> at_rate(
    const std::function<double(const Update&)>& rate) {
  return [rate](const Update& update) {
    for (std::size_t i = 0; i < update.weights.size(); ++i)
      update.weights[i].sub_(update.gradients[i] * rate(update));
  };
}

TEST(CorrectedRuns, SpikeCompensationIsItsEquation) {
  std::map<std::pair<int, std::size_t>, at::Tensor> velocities;
  expect_corrected(
      ", momentum = 0.9, correction = {name = 'spike_compensation'}",
      ", momentum = 0.9", [&](const Update& update) {
        const auto late = static_cast<double>(update.staleness);
        const double a = std::pow(0.9, late);
        const double b = (1 - a) / (1 - 0.9);
        for (std::size_t i = 0; i < update.weights.size(); ++i) {
          at::Tensor& v = velocities[{update.block, i}];
          const at::Tensor& g = update.gradients[i];
          v = v.defined() ? 0.9 * v + g : g.clone();
          update.weights[i].sub_(0.1 * (a * v + b * g));
        }
      });
}

TEST(CorrectedRuns, ImplicitMomentumIsItsEquation) {
  std::map<std::pair<int, std::size_t>, at::Tensor> velocities;
  std::map<int, std::pair<double, double>> seen;
  expect_corrected(
      ", momentum = 0.6, correction = {name = 'implicit_momentum'}",
      ", momentum = 0.6", [&](const Update& update) {
        auto& [sum, count] = seen[update.block];
        sum += static_cast<double>(update.staleness);
        ++count;
        const double tau = sum / count;
        const double m = std::max(0.6 - (1 - 1 / (1 + tau)), -0.6);
        for (std::size_t i = 0; i < update.weights.size(); ++i) {
          at::Tensor& v = velocities[{update.block, i}];
          const at::Tensor& g = update.gradients[i];
          v = v.defined() ? m * v + g : g.clone();
          update.weights[i].sub_(0.1 * v);
        }
      });
}

TEST(CorrectedRuns, PipemaresRateIsItsEquation) {
  expect_corrected(
      ", correction = {name = 'pipemare', anneal_turns = 20}", "",
      at_rate([](const Update& update) {
        const double p =
            1 - std::min(static_cast<double>(update.turn) / 20, 1.0);
        const auto late =
            static_cast<double>(std::max<std::int64_t>(1, update.staleness));
        return 0.1 * std::pow(late, -p);
      }));
}

TEST(CorrectedRuns, StalenessAwareDividesByStaleness) {
  expect_corrected(", correction = {name = 'staleness_aware'}", "",
                   at_rate([](const Update& update) {
                     return 0.1 / static_cast<double>(std::max<std::int64_t>(
                                      1, update.staleness));
                   }));
}

TEST(CorrectedRuns, DynsgdDividesBy1PlusStaleness) {
  expect_corrected(", correction = {name = 'dynsgd'}", "",
                   at_rate([](const Update& update) {
                     return 0.1 / static_cast<double>(1 + update.staleness);
                   }));
}

constexpr const char* kCompensated =
    ", correction = {name = 'delay_compensation', strength = 20000}";

void compensate(const Update& update) {
  for (std::size_t i = 0; i < update.weights.size(); ++i) {
    const at::Tensor& g = update.gradients[i];
    const at::Tensor moved =
        update.weights[i] - update.weights_of_forward[i].detach();
    update.weights[i].sub_(0.1 * (g + 20000 * g * g * moved));
  }
}

TEST(CorrectedRuns, DelayCompensationIsItsEquation) {
  Training training(small_experiment(net_with(kCompensated)));
  training.train();
  DelayOracle oracle(Training(small_experiment(net_with(kCompensated))),
                     {.update = compensate});
  oracle.train();
  Training without(small_experiment(net_with("")));
  without.train();
  const at::Tensor& plain = oracle.weights(1).front();
  const at::Tensor run = training.block(1).weights().front().second;
  const at::Tensor uncorrected = without.block(1).weights().front().second;
  EXPECT_LT((run - plain).abs().max().item<double>(), 2e-6);
  EXPECT_GT((uncorrected - plain).abs().max().item<double>(), 1e-4);
}

TEST(CorrectedRuns, DelayCompensationFindsTheForwardsWeightsInEveryView) {
  const std::string plain = net_with(kCompensated);
  EXPECT_EQ(difference(applications(plain).at(1),
                       applications(net_with(kCompensated, "recompute")).at(1)),
            "");
  // Mixed keeps none by itself; its gradients are others.
  EXPECT_EQ(applications(net_with(kCompensated, "mixed")).at(1).size(), 30U);
}

TEST(CorrectedRuns, WithoutDelayACorrectionChangesNoBit) {
  for (const char* name :
       {"spike_compensation", "dynsgd", "delay_compensation"}) {
    const std::string rest =
        "blocks = ['0', '1']\nmodel = {hidden = [24]}\n"
        "boundary = {policy = 'backprop'}\n";
    const auto trained = [&](const std::string& correction) {
      Training training(small_experiment(
          rest +
          "optimizer = {lr = 0.1, momentum = 0.9, correction = {name = "
          "'" +
          correction + "'}}\n"));
      training.train();
      return training.weights();
    };
    EXPECT_EQ(difference(trained(name), trained("none")), "") << name;
  }
}

}  // namespace sluice::corrected_runs_test
