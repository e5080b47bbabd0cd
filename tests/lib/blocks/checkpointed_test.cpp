#include "lib/blocks/checkpointed.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "lib/base/error.h"
#include "lib/base/memory/account.h"
#include "lib/blocks/block.h"
#include "lib/memory/allocator.h"
#include "lib/tensors/precision.h"

namespace sluice::checkpointed_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kWidth = 32;

/// A layer of two tensors: the first goes through a weight, a norm, a dropout
/// and a bend, the second takes a little of it along.
struct TwoStreams final : Layer {
  TwoStreams() {
    register_module("linear", linear);
    register_module("norm", norm);
  }
  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    ++forwards;
    const at::Tensor mask =
        at::rand(inputs[0].sizes(), pass.generator("mask")) > 0.3;
    const at::Tensor bent = at::tanh(norm(linear(inputs[0]))) * mask;
    return {bent, inputs[1] + 0.1 * bent};
  }
  torch::nn::Linear linear{torch::nn::LinearOptions(kWidth, kWidth)};
  torch::nn::BatchNorm1d norm{torch::nn::BatchNorm1dOptions(kWidth)};
  std::int64_t forwards = 0;
};

constexpr std::int64_t kLayers = 5;

Block block_of(std::int64_t checkpointed) {
  const auto make = [] {
    Layers layers;
    for (std::int64_t i = 0; i < kLayers; ++i) {
      layers.push_back(std::make_shared<TwoStreams>());
      layers.back()->initialise(static_cast<std::uint64_t>(i));
    }
    return layers;
  };
  Block block(1, 3, make, MemoryFormat::contiguous);
  block.checkpoint_every(checkpointed);
  return block;
}

Tensors inputs() {
  const auto random = at::make_generator<at::CPUGeneratorImpl>(5);
  return {at::randn({kBatch, kWidth}, random).set_requires_grad(true),
          at::randn({kBatch, kWidth}, random).set_requires_grad(true)};
}

at::Tensor loss_of(const Tensors& outputs) {
  return (outputs[0] * outputs[1]).to(at::kFloat).square().mean();
}

struct Pair {
  Tensors gradients = {};
  Tensors buffers = {};
  std::int64_t kept = 0;  ///< bytes
};

/// Gradients at the inputs and weights after a forward, with what lies between.
template <typename Between>
Pair trained(Block& block, const Between& between,
             Precision precision = Precision::fp32) {
  Tensors targets = inputs();
  const Tensors fed = targets;
  for (const auto& [name, parameter] : block.parameters())
    targets.push_back(parameter);
  const std::int64_t before = charged_by_this_thread();
  at::Tensor loss;
  Pair found;
  {
    const PrecisionScope scope(precision);
    const Tensors outputs = block.forward(fed, {.seed = 1, .batch = 2});
    found.kept = charged_by_this_thread() - before;
    loss = loss_of(outputs);
  }
  between();
  found.gradients = torch::autograd::grad({loss}, targets);
  for (const auto& [name, buffer] : block.buffers())
    found.buffers.push_back(buffer.clone());
  return found;
}

Pair trained(std::int64_t checkpointed, Precision precision = Precision::fp32) {
  Block block = block_of(checkpointed);
  return trained(
      block, [] {}, precision);
}

void expect_same_bits(const Tensors& left, const Tensors& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i)
    EXPECT_TRUE(at::equal(left[i], right[i])) << "tensor " << i;
}

TEST(CheckpointedLayers, HaveTheGradientsAndStatisticsOfAGraphThatIsKept) {
  const Pair plain = trained(0);
  for (const std::int64_t every : {1, 2, 3, 5, 9}) {
    SCOPED_TRACE(every);
    const Pair checkpointed = trained(every);
    expect_same_bits(checkpointed.gradients, plain.gradients);
    expect_same_bits(checkpointed.buffers, plain.buffers);
  }
}

TEST(CheckpointedLayers, HaveThemInBf16) {
  const Pair plain = trained(0, Precision::bf16);
  expect_same_bits(trained(2, Precision::bf16).gradients, plain.gradients);
  EXPECT_FALSE(at::equal(trained(2).gradients[0], plain.gradients[0]));
}

TEST(CheckpointedLayers, KeepWhatPassesFromOneSegmentToTheNext) {
  if (!install_allocator()) GTEST_SKIP() << "AddressSanitizer is there";
  const MemoryAccount account("test");
  const MemoryScope scope(account);
  const std::int64_t two_outputs = kBatch * kWidth * 4 * 2;
  EXPECT_EQ(trained(1).kept, kLayers * two_outputs);
  EXPECT_EQ(trained(2).kept, (kLayers + 1) / 2 * two_outputs);
  EXPECT_EQ(trained(kLayers).kept, two_outputs);
  EXPECT_GT(trained(0).kept, trained(1).kept);
}

TEST(CheckpointedLayers, TrainWhenAnEvaluationLiesBetween) {
  Block plain = block_of(0);
  Block checkpointed = block_of(2);
  const auto evaluated = [](Block& block) {
    return block.forward(inputs(), {.seed = 1, .batch = 9, .training = false});
  };
  const Pair expected = trained(plain, [&] { evaluated(plain); });
  const Pair found = trained(checkpointed, [&] { evaluated(checkpointed); });
  expect_same_bits(found.gradients, expected.gradients);
  expect_same_bits(evaluated(checkpointed), evaluated(plain));
}

TEST(CheckpointedLayers, RunAgainForEachBackward) {
  Block block = block_of(1);
  Tensors fed = inputs();
  const at::Tensor loss = loss_of(block.forward(fed, {.seed = 1, .batch = 2}));
  const auto gradient_at = [&](const at::Tensor& target, bool kept) {
    return torch::autograd::grad({loss}, {target}, {}, kept)[0];
  };
  const Pair plain = trained(0);
  EXPECT_TRUE(at::equal(gradient_at(fed[0], true), plain.gradients[0]));
  EXPECT_TRUE(at::equal(gradient_at(block.parameters()[0].second, false),
                        plain.gradients[2]));
}

/// Multiplies by a weight that others may have too.
struct Scale final : Layer {
  explicit Scale(at::Tensor weight) { register_parameter("weight", weight); }
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0] * parameters()[0]};
  }
};

TEST(CheckpointedLayers, AddTheGradientsOfAWeightThatTwoOfThemShare) {
  const at::Tensor weight = at::full({1}, 3.0).set_requires_grad(true);
  const Layers layers = {std::make_shared<Scale>(weight),
                         std::make_shared<Scale>(weight)};
  const Tensors outputs =
      run_checkpointed(layers, {}, {at::ones({1})}, c10::DeviceType::CPU);
  const Tensors found = torch::autograd::grad(outputs, {weight});
  EXPECT_EQ(found[0].item<double>(), 2 * 3);
}

/// One output for each of two weights.
struct Fork final : Layer {
  Fork() {
    register_parameter("left", at::ones({1}));
    register_parameter("right", at::ones({1}));
  }
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0] * parameters()[0], inputs[0] * parameters()[1]};
  }
};

TEST(CheckpointedLayers, GiveNoGradientToWeightsOfAnOutputThatNothingUses) {
  const auto fork = std::make_shared<Fork>();
  const Tensors outputs =
      run_checkpointed({fork}, {}, {at::ones({1})}, c10::DeviceType::CPU);
  const Tensors found =
      torch::autograd::grad({outputs[0]}, fork->parameters(), {}, std::nullopt,
                            /*create_graph=*/false, /*allow_unused=*/true);
  EXPECT_TRUE(found[0].defined());
  EXPECT_FALSE(found[1].defined());
}

struct Overwriting final : Layer {
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0].mul_(2), inputs[1]};
  }
};

TEST(CheckpointedLayers, MustNotWriteWhatTheOnesBelowGiveThem) {
  const auto make = [] {
    return Layers{std::make_shared<TwoStreams>(),
                  std::make_shared<Overwriting>()};
  };
  Block block(1, 3, make, MemoryFormat::contiguous);
  block.checkpoint_every(1);
  EXPECT_THAT([&] { block.forward(inputs(), {.seed = 1}); },
              ThrowsMessage<UserError>(HasSubstr("from 4 on of block 1")));
}

TEST(CheckpointedLayers, GiveFrozenWeightsNoGradient) {
  Block block = block_of(2);
  block.parameters()[0].second.set_requires_grad(false);
  Tensors fed = inputs();
  const at::Tensor loss = loss_of(block.forward(fed, {.seed = 1, .batch = 2}));
  const Tensors found =
      torch::autograd::grad({loss}, {fed[0], block.parameters()[1].second});
  const Pair plain = trained(0);
  EXPECT_TRUE(at::equal(found[0], plain.gradients[0]));
  EXPECT_TRUE(at::equal(found[1], plain.gradients[3]));
}

TEST(CheckpointedLayers, HaveNoGraphOfTheirGradients) {
  Block block = block_of(2);
  Tensors fed = inputs();
  const at::Tensor loss = loss_of(block.forward(fed, {.seed = 1, .batch = 2}));
  EXPECT_THAT(
      [&] {
        torch::autograd::grad({loss}, {fed[0]}, {}, true,
                              /*create_graph=*/true);
      },
      ThrowsMessage<UserError>(HasSubstr("of the first order")));
}

TEST(CheckpointedLayers, KeepNothingInAnEvaluation) {
  Block block = block_of(2);
  const at::NoGradGuard no_grad;
  const Tensors outputs =
      block.forward(inputs(), {.seed = 1, .training = false});
  EXPECT_FALSE(outputs[0].requires_grad());
}

std::string name_of_graph(Block block) {
  return block.forward(inputs(), {.seed = 1})[0].grad_fn()->name();
}

TEST(CheckpointedLayers, AreThoseOfTwinsToo) {
  Block twin = block_of(2).twin();
  EXPECT_EQ(name_of_graph(twin), name_of_graph(block_of(2)));
  EXPECT_NE(name_of_graph(twin), name_of_graph(block_of(0)));
}

}  // namespace sluice::checkpointed_test
