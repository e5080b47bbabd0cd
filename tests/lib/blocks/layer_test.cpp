#include "lib/blocks/layer.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lib/base/error.h"

namespace sluice::layer_test {

struct Net final : torch::nn::Module {
  explicit Net(bool linear_first = true) {
    if (linear_first) register_module("linear", linear);
    register_module("conv", conv);
    register_module("norm", norm);
    if (!linear_first) register_module("linear", linear);
  }
  torch::nn::Linear linear{torch::nn::LinearOptions(100, 400)};
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(4, 50, 5)};
  torch::nn::BatchNorm2d norm{torch::nn::BatchNorm2dOptions(50)};
};

double largest(const at::Tensor& values) {
  return values.abs().max().item<double>();
}

TEST(Pass, SameKeyDrawsTheSameNumbers) {
  const Pass pass{.seed = 1, .batch = 2, .layer = 3};
  EXPECT_TRUE(at::equal(at::rand({8}, pass.generator("mask")),
                        at::rand({8}, pass.generator("mask"))));
}

TEST(Pass, EachPartOfTheKeyMatters) {
  const Pass pass{.seed = 1, .batch = 2, .layer = 3};
  const auto draw = [](const Pass& of, std::string_view purpose) {
    return at::rand({8}, of.generator(purpose));
  };
  const at::Tensor numbers = draw(pass, "mask");
  EXPECT_FALSE(
      at::equal(numbers, draw({.seed = 2, .batch = 2, .layer = 3}, "mask")));
  EXPECT_FALSE(
      at::equal(numbers, draw({.seed = 1, .batch = 3, .layer = 3}, "mask")));
  EXPECT_FALSE(
      at::equal(numbers, draw({.seed = 1, .batch = 2, .layer = 4}, "mask")));
  EXPECT_FALSE(at::equal(numbers, draw(pass, "noise")));
}

TEST(InitialiseParameters, MatricesFillLibTorchsRange) {
  Net net;
  initialise_parameters(net, 1);
  EXPECT_LE(largest(net.linear->weight), 1 / std::sqrt(100.0));
  EXPECT_GT(largest(net.linear->weight), 0.99 / std::sqrt(100.0));
  EXPECT_LE(largest(net.conv->weight), 1 / std::sqrt(4 * 5 * 5.0));
  EXPECT_GT(largest(net.conv->weight), 0.99 / std::sqrt(4 * 5 * 5.0));
}

TEST(InitialiseParameters, SpreadOfMatricesIsThatOfLibTorchsDefault) {
  Net net;
  const double expected = net.linear->weight.std().item<double>();
  initialise_parameters(net, 1);
  EXPECT_NEAR(net.linear->weight.std().item<double>(), expected,
              0.02 * expected);
  EXPECT_NEAR(net.linear->weight.mean().item<double>(), 0, 0.02 * expected);
}

TEST(InitialiseParameters, BiasesHaveTheRangeOfTheirWeights) {
  Net net;
  initialise_parameters(net, 1);
  EXPECT_LE(largest(net.linear->bias), 1 / std::sqrt(100.0));
  EXPECT_GT(largest(net.linear->bias), 0.9 / std::sqrt(100.0));
}

TEST(InitialiseParameters, NormsStartAsIdentity) {
  Net net;
  net.norm->weight.detach().fill_(3);
  net.norm->bias.detach().fill_(3);
  initialise_parameters(net, 1);
  EXPECT_TRUE(at::equal(net.norm->weight, at::ones({50})));
  EXPECT_TRUE(at::equal(net.norm->bias, at::zeros({50})));
}

TEST(InitialiseParameters, OrderOfConstructionDoesNotMatter) {
  Net one(true);
  Net other(false);
  initialise_parameters(one, 7);
  initialise_parameters(other, 7);
  EXPECT_TRUE(at::equal(one.linear->weight, other.linear->weight));
  EXPECT_TRUE(at::equal(one.conv->bias, other.conv->bias));
}

TEST(InitialiseParameters, MemoryFormatDoesNotMatter) {
  Net one;
  Net other;
  other.conv->weight.set_data(
      other.conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  initialise_parameters(one, 7);
  initialise_parameters(other, 7);
  EXPECT_TRUE(at::equal(one.conv->weight, other.conv->weight));
}

TEST(InitialiseParameters, AnotherKeyGivesOtherWeights) {
  Net one;
  Net other;
  initialise_parameters(one, 7);
  initialise_parameters(other, 8);
  EXPECT_FALSE(at::equal(one.linear->weight, other.linear->weight));
}

TEST(InitialiseParameters, ParametersOfOneShapeDiffer) {
  struct Pair final : torch::nn::Module {
    torch::nn::Linear a = register_module("a", torch::nn::Linear(3, 3));
    torch::nn::Linear b = register_module("b", torch::nn::Linear(3, 3));
  } pair;
  initialise_parameters(pair, 7);
  EXPECT_FALSE(at::equal(pair.a->weight, pair.b->weight));
}

TEST(InitialiseParameters, UnknownVectorsAreRefusedByName) {
  struct Odd final : torch::nn::Module {
    Odd() { register_parameter("scale", at::ones({3})); }
  } odd;
  try {
    initialise_parameters(odd, 1);
    FAIL() << "no error";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("'scale'"), std::string::npos);
  }
}

}  // namespace sluice::layer_test
