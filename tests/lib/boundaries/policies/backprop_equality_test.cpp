// With `backprop` at every boundary, a cut network must train as the uncut one
// does. The oracle is a plain LibTorch loop over PlainNet.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_loop.h"
#include "tests/oracles/plain_net.h"

namespace sluice::backprop_equality_test {

std::unique_ptr<PlainNet> plain_mlp(double dropout) {
  return std::make_unique<PlainMlp>(
      std::vector<std::int64_t>{784, 48, 40, 32, 10}, true, dropout);
}
std::unique_ptr<PlainNet> plain_conv(double dropout) {
  return std::make_unique<PlainConv3>(8, dropout);
}

constexpr const char* kMlp =
    "model = {name = 'mlp', hidden = [48, 40, 32], batch_norm = true, dropout "
    "= 0.25}\n";
constexpr const char* kConv =
    "model = {name = 'conv3', channels = 8, dropout = 0.25}\n";
constexpr const char* kMlpNoDropout =
    "model = {name = 'mlp', hidden = [48, 40, 32], batch_norm = true}\n";

constexpr const char* kConvNoDropout =
    "model = {name = 'conv3', channels = 8}\n";

void plain_loop(PlainNet& net, const Experiment& experiment, std::int64_t turns,
                const std::function<void()>& update) {
  const std::uint64_t seed = experiment.seed;
  plain_loop(
      net,
      [&](const at::Tensor& x, std::int64_t turn) {
        return net.forward(x, seed, turn);
      },
      experiment, turns, update);
}

struct Case {
  std::string name;
  std::string config;
  std::unique_ptr<PlainNet> (*net)(double dropout);
};

class BackpropInBlocks : public testing::TestWithParam<std::tuple<Case, int>> {
};

TEST_P(BackpropInBlocks, EndsWithTheBitsOfThePlainLoop) {
  const auto& [it, blocks] = GetParam();
  Training training(small_experiment("blocks = " + std::to_string(blocks) +
                                     "\n" + it.config + kSgd));
  const auto net = it.net(0.25);
  take_weights(*net, net->named(), training);
  const NamedTensors first = copies_of(training.weights());
  plain_loop(*net, training.experiment, 20, FusedSgd(*net));
  training.train();
  EXPECT_EQ(difference(training.weights(), net->named()), "");
  EXPECT_GT(distance(first, training.weights()), 1e-3) << "nothing was trained";
}

TEST(LocalLoss, B1_L8_OneBlockEndsWithTheBitsOfThePlainLoop) {
  Training training(small_experiment(
      std::string("blocks = 1\nboundary = {policy = 'local_loss'}\n") + kMlp +
      kSgd));
  const auto net = plain_mlp(0.25);
  take_weights(*net, net->named(), training);
  plain_loop(*net, training.experiment, 20, FusedSgd(*net));
  training.train();
  EXPECT_EQ(difference(training.weights(), net->named()), "");
}

TEST(Backprop, KeepsTheSizeOfAShortLastBatch) {
  Training training(small_experiment(
      std::string("blocks = 2\ndata = {train = 330, test = 64}\nturns = 22\n") +
      kMlp + kSgd));
  const auto net = plain_mlp(0.25);
  take_weights(*net, net->named(), training);
  plain_loop(*net, training.experiment, 22, FusedSgd(*net));
  training.train();
  EXPECT_EQ(difference(training.weights(), net->named()), "");
}

INSTANTIATE_TEST_SUITE_P(
    AnyCut, BackpropInBlocks,
    testing::Combine(
        testing::Values(
            Case{"Mlp", kMlp, plain_mlp}, Case{"Conv", kConv, plain_conv},
            Case{"ConvChannelsLast",
                 std::string("memory_format = 'channels_last'\n") + kConv,
                 plain_conv}),
        testing::Values(1, 2, 3, 4)),
    [](const auto& info) {
      return std::get<0>(info.param).name + "In" +
             std::to_string(std::get<1>(info.param)) + "Blocks";
    });

/// One turn of ours against one step of torch::optim, contiguous and without
/// dropout, from the same weights.
void expect_near_torch_optim(
    const std::string& optimizer,
    const std::function<std::function<void()>(std::vector<at::Tensor>)>&
        reference) {
  for (const Case& it : {Case{"mlp", kMlpNoDropout, plain_mlp},
                         Case{"conv", kConvNoDropout, plain_conv}}) {
    Training training(small_experiment("blocks = 3\nturns = 1\n" + it.config +
                                       "optimizer = " + optimizer + "\n"));
    const auto net = it.net(0);
    take_weights(*net, net->named(), training);
    plain_loop(*net, training.experiment, 1, reference(net->parameters()));
    const NamedTensors first = copies_of(training.weights());
    training.train();
    EXPECT_LT(distance(net->named(), training.weights()), 1e-5) << it.name;
    EXPECT_GT(distance(first, training.weights()), 1e-4) << it.name;
  }
}

template <class Optimizer, class Options>
auto stepper(Options options) {
  return
      [options](std::vector<at::Tensor> parameters) -> std::function<void()> {
        const auto optimizer =
            std::make_shared<Optimizer>(std::move(parameters), options);
        return [optimizer] { optimizer->step(); };
      };
}

TEST(OptimizerStep, SgdIsNearTorchOptim) {
  expect_near_torch_optim(
      "{name = 'sgd', lr = 0.05, momentum = 0.9, nesterov = true, weight_decay "
      "= 5e-4}",
      stepper<torch::optim::SGD>(torch::optim::SGDOptions(0.05)
                                     .momentum(0.9)
                                     .nesterov(true)
                                     .weight_decay(5e-4)));
}

TEST(OptimizerStep, AdamIsNearTorchOptim) {
  expect_near_torch_optim(
      "{name = 'adam', lr = 1e-3, weight_decay = 1e-4}",
      stepper<torch::optim::Adam>(
          torch::optim::AdamOptions(1e-3).weight_decay(1e-4)));
}

TEST(OptimizerStep, AdamWIsNearTorchOptim) {
  expect_near_torch_optim(
      "{name = 'adamw', lr = 1e-3, weight_decay = 0.1}",
      stepper<torch::optim::AdamW>(
          torch::optim::AdamWOptions(1e-3).weight_decay(0.1)));
}

TEST(Clipping, ClippingOfTheModelIsThatOfTorch) {
  Training training(small_experiment(
      "blocks = 3\nturns = 1\n" + std::string(kMlpNoDropout) +
      "optimizer = {lr = 0.5, clip = {norm = 0.1, scope = 'model'}}\n"));
  const auto net = plain_mlp(0);
  take_weights(*net, net->named(), training);
  plain_loop(*net, training.experiment, 1, [&] {
    const double before =
        torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1);
    EXPECT_GT(before, 0.1) << "nothing was clipped";
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : net->parameters())
      weight.sub_(weight.grad(), 0.5);
  });
  training.train();
  EXPECT_LT(distance(net->named(), training.weights()), 1e-6);
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

TEST(Clipping, ClippingOfTheModelDoesNotDependOnTheCut) {
  const std::string rest =
      std::string(kMlp) +
      "optimizer = {lr = 0.05, clip = {norm = 0.5, scope = 'model'}}\n";
  EXPECT_EQ(difference(trained("blocks = 1\n" + rest),
                       trained("blocks = 4\n" + rest)),
            "");
}

TEST(Clipping, ClippingOfABlockDependsOnTheCut) {
  const std::string rest =
      std::string(kMlp) + "optimizer = {lr = 0.05, clip = {norm = 0.5}}\n";
  EXPECT_NE(difference(trained("blocks = 1\n" + rest),
                       trained("blocks = 4\n" + rest)),
            "");
}

TEST(LearningRate, LearningRateOfABlockIsItsOwn) {
  Training training(small_experiment(
      std::string("blocks = 2\n") + kMlpNoDropout +
      "optimizer = {lr = 0.05, momentum = 0.5, 1 = {lr = 0}}\n"));
  const NamedTensors lower = copies_of(training.block(1).weights());
  const NamedTensors upper = copies_of(training.block(2).weights());
  training.train();
  const auto moved = [](const NamedTensors& before, Seat& worker) {
    return distance({before.front()}, worker.weights());
  };
  EXPECT_EQ(moved(lower, training.block(1)), 0);
  EXPECT_GT(moved(upper, training.block(2)), 1e-3);
}

BlockCosts block_costs(double forward, double backward, double update) {
  return {.seconds = {{Op::forward, forward},
                      {Op::backward, backward},
                      {Op::update, update}}};
}

TEST(VirtualEngine, ReportsTheSecondsThatTheCostsSay) {
  Training training(small_experiment(
      std::string("blocks = 2\nevaluate_every = 0\n") + kMlpNoDropout));
  // 20 turns, each forward and backward through both blocks in a row, then two
  // batches of evaluation, whose second overlaps with the first.
  EXPECT_NEAR(training.train(
                  {.blocks = {block_costs(1, 2, 0.5), block_costs(1, 2, 0.5)}}),
              20 * (1 + 1 + 2 + 2 + 0.5) + 3, 1e-9);
}

TEST(VirtualEngine, GivesTheSameBitsAtAnySpeed) {
  const auto weights_at = [](const Costs& costs) {
    Training training(small_experiment(std::string("blocks = 3\n") +
                                       kMlpNoDropout +
                                       "boundary = {policy = 'local_loss'}\n"));
    training.train(costs);
    return copies_of(training.weights());
  };
  EXPECT_EQ(
      difference(weights_at({}), weights_at({.blocks = {block_costs(3, 1, 0),
                                                        block_costs(1, 5, 1),
                                                        block_costs(2, 2, 0)},
                                             .latency = 0.7})),
      "");
}

TEST(Bf16, DoesNotDependOnTheCut) {
  const std::string rest =
      "precision = 'bf16'\nturns = 5\n" + std::string(kMlp) + kSgd;
  EXPECT_EQ(difference(trained("blocks = 1\n" + rest),
                       trained("blocks = 3\n" + rest)),
            "");
}

TEST(Bf16, EndsWithTheBitsOfThePlainLoopUnderAutocast) {
  Training training(small_experiment("precision = 'bf16'\nblocks = 2\n" +
                                     std::string(kMlpNoDropout) + kSgd));
  const auto net = plain_mlp(0);
  take_weights(*net, net->named(), training);
  plain_loop(*net, training.experiment, 20, FusedSgd(*net));
  training.train();
  EXPECT_EQ(difference(training.weights(), net->named()), "");
}

TEST(Bf16, DiffersFromFp32) {
  const std::string rest = "turns = 5\n" + std::string(kMlp) + kSgd;
  EXPECT_NE(difference(trained(rest), trained("precision = 'bf16'\n" + rest)),
            "");
}

}  // namespace sluice::backprop_equality_test
