// Weight prediction: the invariants of SpecTrain and linear weight prediction
// (methods, C2 and C6).
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/weights/weight_view.h"
#include "tests/oracles/delay_oracle.h"

namespace sluice::predict_test {

constexpr const char* kNet =
    "blocks = ['0-1', '2-3', '4-']\n"
    "model = {hidden = [24, 20, 24, 20, 16]}\n";

std::string momentum(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + ", momentum = 0.9}\n";
}

std::string policy(const std::string& name, const std::string& weights) {
  return "boundary = {policy = '" + name + "', weights = '" + weights + "'}\n";
}

Applications applications(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

/// One layer, and an update that has seen the same gradients for a while.
struct SteppedBlock {
  explicit SteppedBlock(const OptimizerOptions& options)
      : block(make_block(small_experiment("blocks = 1\n").model, 1, 0, 0, 1,
                         MemoryFormat::contiguous)),
        update({.optimizer = options}, aliases()) {
    for (const auto& [name, parameter] : block.parameters())
      gradients.push_back(at::full_like(parameter.detach(), 0.25));
  }
  NamedTensors aliases() const {
    NamedTensors all;
    for (const auto& [name, parameter] : block.parameters())
      all.emplace_back(name, parameter.variable_data());
    return all;
  }
  void step(int times) {
    for (int i = 0; i < times; ++i) {
      Tensors each;
      for (const at::Tensor& gradient : gradients)
        each.push_back(gradient.clone());
      update.apply(each, {.rate = kRate});
    }
  }
  /// Weights with which a batch is forwarded that has so many updates ahead.
  Tensors predicted(std::int64_t updates_ahead) {
    const auto view = make_weight_view(
        {.delay = 1, .weights = weights_at_backward("predict")},
        {.block = block, .update = update});
    Flight flight{.inputs = {at::ones({2, 1, 28, 28})},
                  .updates_ahead = updates_ahead,
                  .rate = kRate};
    view->forward(flight);
    return view->weights_of(flight);
  }
  Tensors now() const {
    Tensors copies;
    for (const auto& [name, parameter] : block.parameters())
      copies.push_back(parameter.detach().clone());
    return copies;
  }

  static constexpr double kRate = 0.01;
  Block block;
  UpdateChain update;
  Tensors gradients;
};

double distance(const Tensors& left, const Tensors& right) {
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, (left[i] - right[i]).abs().max().item<double>());
  return most;
}

void expect_exact_for_a_constant_gradient(const OptimizerOptions& options,
                                          int steps_before) {
  SteppedBlock stepped(options);
  stepped.step(steps_before);
  const Tensors before = stepped.now();
  const Tensors predicted = stepped.predicted(3);
  EXPECT_EQ(distance(stepped.now(), before), 0) << "the weights are untouched";
  stepped.step(3);
  EXPECT_LT(distance(predicted, stepped.now()), 1e-6);
  EXPECT_GT(distance(predicted, before), 1e-3);
}

TEST(Predict, IsExactForAConstantGradientOnceTheVelocityHasConverged) {
  expect_exact_for_a_constant_gradient({.momentum = 0.5}, 40);
}

TEST(Predict, IsExactForAConstantGradientFromAdamsFirstStep) {
  expect_exact_for_a_constant_gradient({.name = "adam"}, 1);
}

TEST(Predict, IsExactForAConstantGradientFromMuonsFirstStep) {
  expect_exact_for_a_constant_gradient({.name = "muon"}, 1);
}

TEST(Predict, CountsTheDecoupledDecayOfAdamwAndMuon) {
  for (const char* name : {"adamw", "muon"}) {
    SteppedBlock stepped({.name = name, .weight_decay = 0.1});
    stepped.step(1);
    const Tensors predicted = stepped.predicted(1);
    stepped.step(1);
    EXPECT_LT(distance(predicted, stepped.now()), 1e-6) << name;
  }
}

TEST(Predict, PredictOfNoUpdatesAheadIsTheWeightsAsTheyAre) {
  SteppedBlock stepped({.momentum = 0.5});
  stepped.step(5);
  EXPECT_EQ(distance(stepped.predicted(0), stepped.now()), 0);
}

TEST(Predict, MovesNothingBeforeTheFirstStep) {
  for (const char* name : {"sgd", "adam", "adamw", "muon"}) {
    SteppedBlock stepped({.name = name, .weight_decay = 0.1, .momentum = 0.5});
    EXPECT_EQ(distance(stepped.predicted(4), stepped.now()), 0) << name;
  }
}

TEST(Predict, IsStashAtLearningRateZeroAndNotAbove) {
  const std::string rest = std::string(kNet);
  const auto both = [&](double lr) {
    return std::pair{applications(rest + momentum(lr) +
                                  policy("delayed_gradient", "predict")),
                     applications(rest + momentum(lr) +
                                  policy("delayed_gradient", "stash"))};
  };
  const auto [still, stashed] = both(0);
  for (const auto& [block, updates] : still)
    EXPECT_EQ(difference(updates, stashed.at(block)), "") << block;
  const auto [moving, moving_stashed] = both(0.1);
  EXPECT_NE(difference(moving.at(1), moving_stashed.at(1)), "");
}

TEST(Predict, PredictOfOneBlockIsBackprop) {
  const std::string rest =
      "blocks = 1\nmodel = {hidden = [24]}\n" + momentum(0.1);
  const auto predicted =
      applications(rest + policy("delayed_gradient", "predict"));
  const auto plain = applications(rest + "boundary = {policy = 'backprop'}\n");
  EXPECT_EQ(difference(predicted.at(1), plain.at(1)), "");
}

/// The oracle computes the same in another order of multiplications.
TEST(Predict, IsBackpropagationAtThePredictedWeights) {
  struct Case {
    const char* name;
    DelayOracle::Method method;
  };
  for (const Case& each :
       {Case{"delayed_gradient", {.delay = 1}},
        Case{"fully_decoupled", {.delay = 2, .backward_first = true}}}) {
    const std::string lines =
        kNet + momentum(0.05) + policy(each.name, "predict");
    DelayOracle::Method method = each.method;
    method.rate = 0.05;
    method.momentum = 0.9;
    method.predicts = true;
    const Applications ours = applications(lines);
    const Applications theirs =
        DelayOracle(Training(small_experiment(lines)), method).train();
    method.predicts = false;
    const Applications stashed =
        DelayOracle(Training(small_experiment(lines)), method).train();
    for (const auto& [block, updates] : ours) {
      ASSERT_GT(updates.size(), 10U);
      EXPECT_LT(sluice::distance(updates, theirs.at(block)), 1e-5)
          << each.name << ", block " << block;
    }
    EXPECT_GT(sluice::distance(ours.at(1), stashed.at(1)), 1e-4) << each.name;
  }
}

}  // namespace sluice::predict_test
