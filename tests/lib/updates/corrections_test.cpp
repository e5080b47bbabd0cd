#include "lib/updates/corrections.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/updates/update_chain.h"
#include "tests/lib/updates/rules.h"

namespace sluice::corrections_test {

OptimizerKeys corrected_by(std::string_view name,
                           const OptimizerKeys& more = {}) {
  OptimizerKeys keys = {{"momentum", 0.9},
                        {"correction.name", std::string(name)}};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Facts of an update that applies one batch.
UpdateInfo stale_by(std::int64_t updates, std::int64_t turn = 0) {
  UpdateInfo info{.turn = turn, .rate = 0.1};
  info.in_updates.add(updates);
  return info;
}

/// Weights [3] and a chain of their own.
struct TrainedChain {
  explicit TrainedChain(const OptimizerKeys& keys,
                        at::ScalarType type = at::kFloat)
      : weights(at::tensor({0.5, -1.0, 2.0}, type)),
        chain({.optimizer = options_of(keys)}, {{"w", weights}}) {}

  double step(const at::Tensor& gradient, UpdateInfo info) {
    Tensors gradients = {gradient.to(weights.scalar_type())};
    return chain.apply(gradients, std::move(info));
  }

  at::Tensor weights;
  UpdateChain chain;
};

at::Tensor gradient_of(int step) {
  return at::sin(at::arange(3, at::kDouble) + 0.9 * step);
}

class EveryCorrection : public testing::TestWithParam<CorrectionRow> {
 protected:
  static at::Tensor trained(const OptimizerKeys& keys, std::int64_t delay) {
    TrainedChain net(keys);
    for (int step = 0; step < 10; ++step) {
      UpdateInfo info = stale_by(delay);
      info.forward_weights = {net.weights - 0.5};
      net.step(gradient_of(step), info);
    }
    return net.weights;
  }
};

TEST_P(EveryCorrection, IsTheIdentityWithoutStaleness) {
  const OptimizerKeys decay = {{"weight_decay", 0.1}};
  EXPECT_TRUE(trained(corrected_by(GetParam().name, decay), 0)
                  .equal(trained(corrected_by("none", decay), 0)));
}

TEST_P(EveryCorrection, DiffersWithStaleness) {
  EXPECT_FALSE(at::allclose(trained(corrected_by(GetParam().name), 3),
                            trained(corrected_by("none"), 3), 1e-4, 1e-4));
}

TEST_P(EveryCorrection, LeavesUndefinedGradientsSo) {
  const NamedTensors named = {{"w", at::ones({2})}, {"v", at::ones({2})}};
  UpdateChain chain({.optimizer = options_of(corrected_by(GetParam().name))},
                    named);
  UpdateInfo info = stale_by(3);
  info.forward_weights = {at::zeros({2}), at::zeros({2})};
  Tensors gradients = {{}, at::ones({2})};
  chain.apply(gradients, info);
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_TRUE(named[0].second.equal(at::ones({2})));
  EXPECT_FALSE(named[1].second.equal(at::ones({2})));
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryCorrection,
                         testing::ValuesIn(corrections().begin(),
                                           corrections().end()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

/// Heavy ball, written out, over the gradients before `arrived`, and none
/// since: its weights after `steps` steps.
at::Tensor undelayed(int arrived, int steps) {
  at::Tensor weights = at::tensor({0.5, -1.0, 2.0}, at::kDouble);
  at::Tensor velocity = at::zeros({3}, at::kDouble);
  for (int step = 0; step < steps; ++step) {
    velocity = 0.9 * velocity;
    if (step < arrived) velocity = velocity + gradient_of(step);
    weights = weights - 0.1 * velocity;
  }
  return weights;
}

TEST(SpikeCompensation, HasAtAllTimesTheWeightsOfGradientsThatCameInTime) {
  for (const int delay : {1, 2, 3, 6}) {
    TrainedChain net(corrected_by("spike_compensation"), at::kDouble);
    for (int step = 0; step < 30; ++step) {
      net.step(gradient_of(step), stale_by(delay));
      EXPECT_TRUE(at::allclose(
          net.weights, undelayed(step + 1, step + 1 + delay), 1e-12, 1e-12))
          << delay << " late, step " << step;
    }
  }
}

TEST(SpikeCompensation, WithoutItDelayedGradientsLagBehind) {
  TrainedChain net(corrected_by("none"), at::kDouble);
  for (int step = 0; step < 5; ++step) net.step(gradient_of(step), stale_by(3));
  EXPECT_GT((net.weights - undelayed(5, 8)).abs().max().item<double>(), 0.05);
}

TEST(SpikeCompensation, SpikeCompensationOfOneUpdateIsNesterovsMomentum) {
  TrainedChain net(corrected_by("spike_compensation", {{"weight_decay", 0.1}}));
  TrainedChain nesterov(
      corrected_by("none", {{"weight_decay", 0.1}, {"nesterov", true}}));
  for (int step = 0; step < 30; ++step) {
    net.step(gradient_of(step), stale_by(1));
    nesterov.step(gradient_of(step), stale_by(1));
  }
  // 1 ulp of 2: the fused operation rounds once less.
  EXPECT_TRUE(at::allclose(net.weights, nesterov.weights, 0, 2.4e-7));
}

TEST(SpikeCompensation, TakesTheMeanDelayOfAWindow) {
  TrainedChain net(corrected_by("spike_compensation"), at::kDouble);
  TrainedChain window(corrected_by("spike_compensation"), at::kDouble);
  UpdateInfo of_two = stale_by(1);
  of_two.in_updates.add(5);
  of_two.batches = 2;
  net.step(gradient_of(0), stale_by(3));
  window.step(gradient_of(0), of_two);
  EXPECT_TRUE(net.weights.equal(window.weights));
}

/// Change of a weight by a second step without a gradient, over that by the
/// first step: the momentum.
double momentum_at(std::int64_t staleness) {
  TrainedChain net(corrected_by("implicit_momentum"), at::kDouble);
  const at::Tensor before = net.weights.clone();
  net.step(at::ones({3}), stale_by(staleness));
  const at::Tensor first = net.weights - before;
  net.step(at::zeros({3}), stale_by(staleness));
  return ((net.weights - before - first) / first)[0].item<double>();
}

TEST(ImplicitMomentum, TakesOffWhatTheStalenessOfNWorkersBrings) {
  EXPECT_DOUBLE_EQ(momentum_at(0), 0.9);
  for (const int workers : {2, 4, 8})
    EXPECT_NEAR(momentum_at(workers - 1), 0.9 - (1 - 1.0 / workers), 1e-12);
  EXPECT_NEAR(momentum_at(1000000), -0.1, 1e-5);
}

TEST(ImplicitMomentum, GoesOnFromWhatACheckpointHas) {
  TrainedChain whole(corrected_by("implicit_momentum"), at::kDouble);
  TrainedChain part(corrected_by("implicit_momentum"), at::kDouble);
  for (int step = 0; step < 4; ++step)
    whole.step(gradient_of(step), stale_by(step));
  part.weights.copy_(whole.weights);
  const NamedTensors kept = whole.chain.state();
  const NamedTensors mine = part.chain.state();
  ASSERT_EQ(kept.size(), mine.size());
  for (std::size_t i = 0; i < kept.size(); ++i)
    mine[i].second.copy_(kept[i].second);
  whole.step(gradient_of(4), stale_by(1));
  part.step(gradient_of(4), stale_by(1));
  EXPECT_TRUE(part.weights.equal(whole.weights));
}

/// The rate of 0.1 that a correction leaves.
double rate_under(const OptimizerKeys& keys, std::int64_t staleness,
                  std::int64_t turn = 0) {
  TrainedChain net(keys);
  return net.step(gradient_of(0), stale_by(staleness, turn));
}

TEST(Pipemare, DividesTheRateByAPowerOfStalenessThatFades) {
  const OptimizerKeys keys = {{"correction.name", "pipemare"},
                              {"correction.anneal_turns", std::int64_t{100}}};
  EXPECT_DOUBLE_EQ(rate_under(keys, 4, 0), 0.1 / 4);
  EXPECT_DOUBLE_EQ(rate_under(keys, 4, 50), 0.1 / 2);
  EXPECT_DOUBLE_EQ(rate_under(keys, 9, 50), 0.1 / 3);
  EXPECT_DOUBLE_EQ(rate_under(keys, 4, 100), 0.1);
  EXPECT_DOUBLE_EQ(rate_under(keys, 4, 1000), 0.1);
  EXPECT_DOUBLE_EQ(rate_under(keys, 1, 0), 0.1);
}

TEST(StalenessAware, DividesTheRateByStalenessAbove1) {
  const OptimizerKeys keys = {{"correction.name", "staleness_aware"}};
  EXPECT_DOUBLE_EQ(rate_under(keys, 1), 0.1);
  EXPECT_DOUBLE_EQ(rate_under(keys, 5), 0.1 / 5);
  EXPECT_DOUBLE_EQ(rate_under(keys, 5, 100000), 0.1 / 5);
}

TEST(Dynsgd, DividesTheRateBy1PlusStaleness) {
  const OptimizerKeys keys = {{"correction.name", "dynsgd"}};
  EXPECT_DOUBLE_EQ(rate_under(keys, 1), 0.1 / 2);
  EXPECT_DOUBLE_EQ(rate_under(keys, 5), 0.1 / 6);
}

/// What of a gradient is applied, at weights 2 and weights of the forward.
double compensated(const OptimizerKeys& more, double gradient,
                   double at_forward) {
  const NamedTensors named = {{"w", at::full({1}, 2.0, at::kDouble)}};
  UpdateChain chain(
      {.optimizer = options_of(corrected_by("delay_compensation", more))},
      named);
  UpdateInfo info = stale_by(2);
  info.forward_weights = {at::full({1}, at_forward, at::kDouble)};
  Tensors gradients = {at::full({1}, gradient, at::kDouble)};
  chain.apply(gradients, info);
  return gradients[0].item<double>();
}

TEST(DelayCompensation, IsExactOnAQuadraticWhoseCurvatureItKnows) {
  // h w^2 / 2 with h = 3: at 1.5 its gradient is 4.5, at 2 it is 6.
  EXPECT_DOUBLE_EQ(
      compensated({{"correction.strength", 3 / (4.5 * 4.5)}}, 4.5, 1.5), 6);
}

TEST(DelayCompensation, DelayCompensationOfStrength0OrUnmovedWeightsIsNone) {
  EXPECT_EQ(compensated({{"correction.strength", 0.0}}, 4.5, 1.5), 4.5);
  EXPECT_EQ(compensated({}, 4.5, 2), 4.5);
  EXPECT_DOUBLE_EQ(compensated({}, 4.5, 1.5), 4.5 + 0.04 * 4.5 * 4.5 * 0.5);
}

TEST(DelayCompensation, AdaptsItsStrengthToTheMeanSquare) {
  const double square = 0.1 * 4.5 * 4.5;
  EXPECT_DOUBLE_EQ(compensated({{"correction.strength", 2.0},
                                {"correction.adaptive", true},
                                {"correction.decay", 0.9}},
                               4.5, 1.5),
                   4.5 + 2 / std::sqrt(square + 1e-7) * 4.5 * 4.5 * 0.5);
}

TEST(DelayCompensation, SavesItsMeanSquare) {
  const NamedTensors named = {{"w", at::ones({1})}};
  const UpdateChain chain(
      {.optimizer = options_of(corrected_by("delay_compensation",
                                            {{"correction.adaptive", true}}))},
      named);
  const NamedTensors state = chain.state();
  EXPECT_TRUE(std::any_of(state.begin(), state.end(), [](const auto& named) {
    return named.first == "w.correction";
  }));
}

TEST(DelayCompensation, LeavesHeadsWhichComeAfterTheBlockAlone) {
  const NamedTensors named = {{"w", at::full({1}, 2.0)},
                              {"heads.1.w", at::full({1}, 2.0)}};
  UpdateChain chain(
      {.optimizer = options_of(corrected_by("delay_compensation"))}, named);
  UpdateInfo info = stale_by(2);
  info.forward_weights = {at::ones({1})};
  Tensors gradients = {at::ones({1}), at::ones({1})};
  chain.apply(gradients, info);
  EXPECT_GT(gradients[0].item<double>(), 1);
  EXPECT_EQ(gradients[1].item<double>(), 1);
}

TEST(DelayCompensation, SaysWhatIsMissing) {
  TrainedChain net(corrected_by("delay_compensation"));
  EXPECT_THROW(net.step(gradient_of(0), stale_by(1)), UserError);
}

}  // namespace sluice::corrections_test
