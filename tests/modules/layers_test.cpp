#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lib/base/error.h"
#include "modules/chain.h"
#include "modules/dropout.h"
#include "tests/oracles/plain_philox.h"

namespace sluice::layers_test {

const Pass kPass = {.seed = 1, .batch = 2, .layer = 3};
const Pass kOldPass = {
    .seed = 1, .batch = 2, .layer = 3, .masks = Masks::generator};

at::Tensor drop(const at::Tensor& input, const Pass& pass = kPass) {
  return Dropout(0.5).forward({input}, pass).front();
}

TEST(Dropout, SameKeyGivesTheSameMask) {
  const at::Tensor input = at::ones({4, 100});
  EXPECT_TRUE(at::equal(drop(input), drop(input)));
}

TEST(Dropout, AnotherBatchLayerOrSeedGivesAnotherMask) {
  const at::Tensor input = at::ones({4, 100});
  const at::Tensor output = drop(input);
  EXPECT_FALSE(
      at::equal(output, drop(input, {.seed = 1, .batch = 9, .layer = 3})));
  EXPECT_FALSE(
      at::equal(output, drop(input, {.seed = 1, .batch = 2, .layer = 9})));
  EXPECT_FALSE(
      at::equal(output, drop(input, {.seed = 9, .batch = 2, .layer = 3})));
}

TEST(Dropout, AnotherNameInTheChainGivesAnotherMask) {
  const at::Tensor input = at::ones({4, 100});
  EXPECT_FALSE(at::equal(drop(input, member_pass(kPass, "one")),
                         drop(input, member_pass(kPass, "other"))));
}

/// By Philox, with the key of the pass.
at::Tensor oracle(at::IntArrayRef sizes) {
  return at::tensor(plain_mask(0.5, kPass.key("dropout"), 0,
                               c10::multiply_integers(sizes)))
      .view(sizes);
}

TEST(Dropout, MaskIsThatOfTheOracle) {
  EXPECT_TRUE(at::equal(drop(at::ones({7, 33})), oracle({7, 33})));
  const at::Tensor maps =
      at::ones({2, 20, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(drop(maps), oracle({2, 20, 5, 7})));
}

TEST(Dropout, MaskOfChannelsIsThatOfTheOracle) {
  const at::Tensor output = Dropout(0.5, DropoutUnit::channel)
                                .forward({at::ones({8, 16, 3, 5})}, kPass)
                                .front();
  EXPECT_TRUE(at::equal(output, oracle({8, 16, 1, 1}).expand({8, 16, 3, 5})));
}

TEST(Dropout, TakesOtherTypesThanFloat32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kDouble}) {
    const at::Tensor output = drop(at::ones({7, 33}, type));
    EXPECT_EQ(output.scalar_type(), type);
    EXPECT_TRUE(at::equal(output.to(at::kFloat), oracle({7, 33})));
  }
}

/// What masks = 1 promises: the bits of runs before there were others.
TEST(Dropout, OldMasksAreDrawnInOrderByTheGenerator) {
  const at::Tensor drawn = at::empty({2, 3, 5, 7})
                               .bernoulli_(0.7, kOldPass.generator("dropout"))
                               .div_(0.7);
  const at::Tensor input = at::ones({2, 3, 5, 7});
  const auto old = [&](const at::Tensor& x) {
    return Dropout(0.3).forward({x}, kOldPass).front();
  };
  EXPECT_TRUE(at::equal(old(input), drawn));
  EXPECT_TRUE(
      at::equal(old(input.contiguous(at::MemoryFormat::ChannelsLast)), drawn));
}

TEST(Dropout, OldMasksAreOthers) {
  const at::Tensor input = at::ones({4, 100});
  EXPECT_FALSE(at::equal(drop(input), drop(input, kOldPass)));
}

TEST(Dropout, KeepsTheMean) {
  // 100,000 elements of 0 or 2: four standard errors are 0.013.
  EXPECT_NEAR(drop(at::ones({100000})).mean().item<double>(), 1, 0.013);
}

TEST(Dropout, KeptElementsAreScaled) {
  const at::Tensor output = drop(at::ones({100}));
  EXPECT_TRUE(((output == 0) | (output == 2)).all().item<bool>());
}

TEST(Dropout, IsTheIdentityInAnEvaluationPass) {
  const at::Tensor input = at::ones({100});
  EXPECT_TRUE(at::equal(drop(input, {.training = false}), input));
}

TEST(Dropout, IsTheIdentityInAnEvaluatedBlock) {
  Dropout dropout(0.5);
  dropout.eval();
  const at::Tensor input = at::ones({100});
  EXPECT_TRUE(at::equal(dropout.forward({input}, kPass).front(), input));
}

TEST(Dropout, MaskDoesNotDependOnTheMemoryFormat) {
  const at::Tensor input = at::ones({2, 3, 5, 7});
  for (const Pass& pass : {kPass, kOldPass})
    EXPECT_TRUE(
        at::equal(drop(input.contiguous(at::MemoryFormat::ChannelsLast), pass),
                  drop(input, pass)));
}

TEST(Dropout, KeepsTheMemoryFormat) {
  const at::Tensor input =
      at::ones({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const Pass& pass : {kPass, kOldPass})
    EXPECT_EQ(drop(input, pass).strides(), input.strides());
}

TEST(Dropout, DropsTheGradientOfWhatItDropped) {
  const at::Tensor input = at::ones({100}).requires_grad_();
  const at::Tensor output = drop(input);
  output.sum().backward();
  EXPECT_TRUE(at::equal(input.grad(), output));
}

TEST(Dropout, DropoutOfChannelsDropsAllPixelsOrNone) {
  const at::Tensor output = Dropout(0.5, DropoutUnit::channel)
                                .forward({at::ones({8, 16, 3, 5})}, kPass)
                                .front();
  const at::Tensor pixels = output.flatten(2);  // [N, C, H W]
  EXPECT_TRUE(at::equal(pixels.amin(2), pixels.amax(2)));
  const double kept = (pixels.select(2, 0) == 2).sum().item<double>();
  // 64 of 128 channels are expected, 5.7 is a standard deviation.
  EXPECT_NEAR(kept, 64, 23);
}

TEST(Dropout, AProbabilityOfOneIsRefused) {
  EXPECT_THROW(Dropout(1), UserError);
}

TEST(Chain, TwoDropoutsInALayerHaveTwoMasks) {
  const at::Tensor input = at::ones({100});
  Chain first;
  first.add("one", std::make_shared<Dropout>(0.5));
  Chain second;
  second.add("two", std::make_shared<Dropout>(0.5));
  EXPECT_FALSE(at::equal(first.forward({input}, kPass).front(),
                         second.forward({input}, kPass).front()));
}

TEST(Chain, MembersGiveTheirNamesToTheParameters) {
  Chain chain;
  chain.add("linear", torch::nn::Linear(3, 4));
  const std::vector<std::string> expected = {"linear.weight", "linear.bias"};
  EXPECT_EQ(chain.named_parameters().keys(), expected);
}

TEST(Chain, MembersRunInTheOrderInWhichTheyWereAdded) {
  Chain chain;
  chain.add([](const at::Tensor& x) { return x + 1; });
  chain.add([](const at::Tensor& x) { return x * 3; });
  EXPECT_EQ(chain.forward({at::ones({1})}, {}).front().item<float>(), 6);
}

TEST(Chain, TrainingReachesMembers) {
  auto dropout = std::make_shared<Dropout>(0.5);
  Chain chain;
  chain.add("dropout", dropout);
  chain.eval();
  EXPECT_FALSE(dropout->is_training());
}

TEST(Chain, InitialisesByKey) {
  Chain one;
  one.add("linear", torch::nn::Linear(3, 4));
  Chain other;
  other.add("linear", torch::nn::Linear(3, 4));
  one.initialise(5);
  other.initialise(5);
  EXPECT_TRUE(at::equal(one.parameters()[0], other.parameters()[0]));
}

TEST(Chain, LibTorchsDropoutIsRefusedByName) {
  Chain chain;
  try {
    chain.add("dropout", torch::nn::Dropout(0.5));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("torch::nn::DropoutImpl"));
    EXPECT_THAT(error.what(), testing::HasSubstr("sluice::Dropout"));
  }
}

struct Block final : torch::nn::Module {
  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(3, 4));
  at::Tensor scale = register_parameter("scale", at::ones({4}));
  at::Tensor forward(const at::Tensor& x) { return fc1(x) * scale; }
};

TEST(LayerFrom, ComputesWhatTheModuleComputes) {
  auto module = std::make_shared<Block>();
  const at::Tensor input = at::ones({2, 3});
  EXPECT_TRUE(at::equal(layer_from(module)->forward({input}, {}).front(),
                        module->forward(input)));
}

TEST(LayerFrom, KeepsTheModulesParameterNames) {
  const std::vector<std::string> expected = {"scale", "fc1.weight", "fc1.bias"};
  EXPECT_EQ(layer_from(std::make_shared<Block>())->named_parameters().keys(),
            expected);
}

TEST(LayerFrom, SharesItsParametersWithTheModule) {
  auto module = std::make_shared<Block>();
  const auto layer = layer_from(module);
  layer->to(at::kDouble);
  EXPECT_EQ(module->scale.scalar_type(), at::kDouble);
}

TEST(LayerFrom, KeepsTheWeightsThatTheModuleWasMadeWith) {
  torch::nn::Linear linear(3, 4);
  const at::Tensor before = linear->weight.detach().clone();
  layer_from(linear)->initialise(5);
  EXPECT_TRUE(at::equal(linear->weight, before));
}

TEST(LayerFrom, TrainingReachesTheModule) {
  auto module = std::make_shared<Block>();
  layer_from(module)->eval();
  EXPECT_FALSE(module->is_training());
}

TEST(LayerFrom, ADropoutDeepInsideIsFound) {
  struct HiddenDropout final : torch::nn::Module {
    torch::nn::Dropout2d drop =
        register_module("drop", torch::nn::Dropout2d(0.5));
    at::Tensor forward(const at::Tensor& x) { return drop(x); }
  };
  EXPECT_THROW(layer_from(std::make_shared<HiddenDropout>()), UserError);
}

}  // namespace sluice::layers_test
