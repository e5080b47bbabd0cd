// Heads, losses, optimizers and data sets of one's own in NetworkOptions.
#include "experiments/api/own_parts.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "experiments/api/own_model.h"
#include "experiments/api/sluice.h"
#include "experiments/data/samples/samples.h"
#include "tests/experiments/api/small_network.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::own_parts_test {

using testing::HasSubstr;

/// Two times cross entropy, written out.
at::Tensor twice(const at::Tensor& outputs, const at::Tensor& labels) {
  const at::Tensor logs = outputs.log_softmax(1);
  return -2 * logs.gather(1, labels.unsqueeze(1)).mean();
}

RunLoss configure_twice(Fields& options) {
  bool evaluates_once = false;
  options.key("evaluates_once", evaluates_once, {.text = "plain evaluations"});
  return {.training = twice, .evaluation = twice};
}

RunLoss configure_other(Fields&) {
  return {.training = twice, .evaluation = twice};
}

/// weights -= rate * sign of the gradient.
class Signs final : public Optimizer {
 public:
  explicit Signs(Tensors parameters) : parameters_(std::move(parameters)) {}
  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (gradients[i].defined())
        parameters_[i].sub_(gradients[i].sign(), learning_rate);
  }
  NamedTensors state() const override { return {}; }

 private:
  Tensors parameters_;
};

MakeOptimizer configure_signs(Fields&, OptimizerOptions&) {
  return [](const OptimizerOptions&, const NamedTensors& parameters) {
    return std::make_unique<Signs>(values_of(parameters));
  };
}

/// Head whose loss is the mean of the features' squares times a factor.
class Energy final : public Head {
 public:
  explicit Energy(double factor) : factor_(factor) {}
  HeadResult forward(const Tensors& features, const HeadInputs&) override {
    return {factor_ * features.at(0).square().mean(), {}};
  }

 private:
  double factor_;
};

MakeHead configure_energy(Fields& options) {
  double factor = 1;
  options.key("factor", factor, {.text = "of the loss"});
  return [factor](const BoundarySite&) {
    return std::make_shared<Energy>(factor);
  };
}

NamedTensors weights_after(NetworkOptions options, std::int64_t steps) {
  Network net(options);
  train(net, steps);
  return net.weights();
}

NetworkOptions plain_network(const std::string& optimizer,
                             const std::string& settings = "") {
  NetworkOptions options = small_network({"backprop"}, settings);
  options.optimizer = optimizer;
  return options;
}

TEST(OwnParts, ALossOfTwiceTheSizeIsARateOfTwiceTheSize) {
  NetworkOptions own =
      plain_network("sgd, lr = 0.05", "loss.name = 'own_parts_twice'\n");
  own.losses = {{"own_parts_twice", "twice cross entropy", configure_twice}};
  const NamedTensors twice_the_loss = weights_after(own, 5);
  EXPECT_LT(distance(twice_the_loss,
                     weights_after(plain_network("sgd, lr = 0.1"), 5)),
            1e-4);
  EXPECT_GT(distance(twice_the_loss,
                     weights_after(plain_network("sgd, lr = 0.05"), 5)),
            1e-3);
}

TEST(OwnParts, AnOptimizerStepsTheWeights) {
  NetworkOptions own = plain_network("own_parts_signs, lr = 0.25");
  own.optimizers = {{"own_parts_signs", "signs alone", configure_signs}};
  Network net(own);
  const NamedTensors before = net.weights();
  train(net, 1);
  const NamedTensors after = net.weights();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i].first.ends_with("weight")) continue;
    const at::Tensor moved = (after[i].second - before[i].second).abs();
    // Some gradients behind a ReLU are 0.
    EXPECT_NEAR(moved.max().item<double>(), 0.25, 1e-6) << before[i].first;
  }
}

TEST(OwnParts, AHeadGivesABlockItsLoss) {
  const auto own = [](const char* factor) {
    NetworkOptions options = small_network(
        {fmt::format("local_loss, head = {{name = 'own_parts_energy', factor = "
                     "{}}}",
                     factor),
         "backprop"});
    options.heads = {{"own_parts_energy", "squares", configure_energy}};
    return options;
  };
  Network net(own("1"));
  const Batch batch = small_batch(0);
  Step step = net.step(batch.inputs, batch.labels);
  // The loss by hand, with the weights before the first update.
  const NamedTensors weights = Network(own("1")).weights();
  const auto tensor = [&](const std::string& name) {
    for (const auto& [its, value] : weights)
      if (its == name) return value;
    ADD_FAILURE() << name;
    return at::Tensor();
  };
  const at::Tensor features =
      at::linear(batch.inputs, tensor("layers.0.weight"),
                 tensor("layers.0.bias"))
          .relu();
  EXPECT_NEAR(step.loss(1), features.square().mean().item<double>(), 1e-6);
  Network thrice(own("3"));
  Step three = thrice.step(batch.inputs, batch.labels);
  EXPECT_NEAR(three.loss(1), 3 * step.loss(1), 1e-5);
}

TEST(OwnParts, ANameHasOneFunctionInAProcess) {
  NetworkOptions options = small_network({"backprop"});
  options.losses = {{"own_parts_once", "a loss", configure_twice}};
  add_own_parts(options);
  add_own_parts(options);  // the same is no second one
  const std::size_t count = losses().size();
  options.losses = {{"own_parts_once", "another", configure_other}};
  EXPECT_THAT(complaint_of([&] { add_own_parts(options); }),
              HasSubstr("loss 'own_parts_once' is there already"));
  options.losses = {{"cross_entropy", "mine", configure_other}};
  EXPECT_THAT(complaint_of([&] { add_own_parts(options); }),
              HasSubstr("'cross_entropy' is there already"));
  EXPECT_EQ(losses().size(), count);
}

NamedTensors drawn(const Model& model, std::uint64_t seed) {
  NamedTensors all;
  const Layers layers = make_layers(
      model, 0, static_cast<std::int64_t>(model.layers.size()) - 1, seed);
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& item : layers[i]->named_parameters())
      all.emplace_back(fmt::format("{}.{}", i, item.key()),
                       item.value().detach());
  return all;
}

TEST(LayersOfAProgram, HaveWeightsThatFollowFromTheSeedAlone) {
  const NetworkOptions options = small_network({"backprop"});
  const OwnModel own = make_own_model(options.layers, options.example);
  const Model model = model_drawn_by_seed(options.layers, own);
  model.draw(1);
  const NamedTensors first = drawn(model, 1);
  EXPECT_EQ(first.front().first, "0.weight");
  at::manual_seed(99);
  const Model again = model_drawn_by_seed(options.layers, own);
  EXPECT_EQ(difference(drawn(again, 1), first), "");  // drawn on request
  EXPECT_GT(distance(drawn(again, 2), first), 0.01);
  EXPECT_GT(distance(drawn(own.model, 1), first), 0.01);  // a network's own
  // Two layers of the same sizes have other weights.
  NetworkOptions twins = options;
  twins.layers = {[] { return torch::nn::Linear(6, 6); },
                  [] { return torch::nn::Linear(6, 6); }};
  const OwnModel two = make_own_model(twins.layers, twins.example);
  const NamedTensors weights = drawn(model_drawn_by_seed(twins.layers, two), 1);
  EXPECT_GT((weights[0].second - weights[2].second).abs().max().item<double>(),
            0.01);
}

TEST(LayersOfAProgram, AreToldApartByTheirSizes) {
  const NetworkOptions options = small_network({"backprop"});
  const OwnModel own = make_own_model(options.layers, options.example);
  EXPECT_EQ(describe_layers(own),
            "[16] 112; [16] 0; [16] 272; [16] 32; [16] 0; [4] 68");
}

TensorSplits three_splits() {
  const auto some = [](std::int64_t count) -> LabelledTensors {
    return {at::randn({count, 6}), at::arange(count).remainder(4)};
  };
  const LabelledTensors train = some(40);
  const LabelledTensors test = some(12);
  return {.train = train, .test = test, .validation = some(8), .classes = 4};
}

TEST(TensorData, IsADataSetOfThoseSamples) {
  at::manual_seed(11);
  const TensorSplits expected = three_splits();
  at::manual_seed(11);
  const DataSet set = data_set_of(three_splits);
  EXPECT_EQ(set.sample.shape, SampleShape({6}));
  EXPECT_EQ(set.sample.classes, 4);
  EXPECT_EQ(set.train.size(), 40);
  EXPECT_EQ(set.test.size(), 12);
  EXPECT_EQ(set.validation.size(), 8);
  const std::vector<std::int64_t> some = {7, 0, 39};
  const Batch batch = set.train.samples()->batch(some, {});
  const at::Tensor which = at::tensor(some, at::kLong);
  EXPECT_TRUE(batch.inputs.equal(expected.train.inputs.index_select(0, which)));
  EXPECT_TRUE(batch.labels.equal(expected.train.labels.index_select(0, which)));
  EXPECT_EQ(batch.labels[1].item<std::int64_t>(), 0);
}

TEST(TensorData, MayHaveNumbersForLabels) {
  const auto numbers = [](std::int64_t others) {
    return [others]() -> TensorSplits {
      return {.train = {at::randn({8, 6}), at::randn({8, 3})},
              .test = {at::randn({4, 6}), at::randn({4, others})}};
    };
  };
  const DataSet set = data_set_of(numbers(3));
  EXPECT_EQ(set.sample.targets, Targets::values);
  EXPECT_EQ(set.sample.classes, 3);
  EXPECT_THAT(complaint_of([&] { data_set_of(numbers(2)); }),
              HasSubstr("test: expected 3 numbers"));
  EXPECT_EQ(data_set_of(three_splits).sample.targets, Targets::classes);
}

TEST(TensorData, LeavesTheProgramsGeneratorAsItWas) {
  at::manual_seed(3);
  const at::Tensor expected = at::randn({4});
  at::manual_seed(3);
  data_set_of(three_splits);
  EXPECT_TRUE(at::randn({4}).equal(expected));
}

TEST(TensorData, WhatDoesNotFitIsRefused) {
  const auto refusal = [](const std::function<void(TensorSplits&)>& change) {
    TensorSplits splits = three_splits();
    change(splits);
    return complaint_of([&] { data_set_of([&] { return splits; }); });
  };
  EXPECT_EQ(refusal([](TensorSplits&) {}), "");
  EXPECT_THAT(refusal([](TensorSplits& s) { s.classes = 3; }),
              HasSubstr("train: labels must be from 0 to 2"));
  EXPECT_THAT(refusal([](TensorSplits& s) { s.test.labels = at::Tensor(); }),
              HasSubstr("test: expected inputs"));
  EXPECT_THAT(refusal([](TensorSplits& s) {
                s.test.inputs = at::zeros({12, 7});
              }),
              HasSubstr("test: its inputs have other sizes"));
  EXPECT_THAT(refusal([](TensorSplits& s) {
                s.train.labels = s.train.labels.to(at::kFloat);
              }),
              HasSubstr("train: expected a label, int64"));
}

}  // namespace sluice::own_parts_test
