// PipeDream-2BW (methods, C4): every window is trained at the weights before
// the last update, whatever the number of blocks, their order and the flushes.
#include <string>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::double_buffer_test {

std::string net(const std::string& blocks, double lr) {
  return "blocks = " + blocks +
         "\nmodel = {hidden = [24, 20, 16]}\nbatch_size = 16\nturns = 12\n"
         "drop_last = true\noptimizer = {lr = " +
         std::to_string(lr) + ", momentum = 0.9}\n" +
         "boundary = {policy = 'backprop'}\n";
}

constexpr const char* kFour = "['0', '1', '2', '3']";
constexpr const char* kDouble =
    "pipeline = {order = '1f1b', micro_batches = 4, weights = "
    "'double_buffer'}\n";
constexpr const char* kFlowing =
    "pipeline = {order = '1f1b', micro_batches = 4, weights = "
    "'double_buffer', flush = false}\n";
constexpr const char* kPredicted =
    "pipeline = {order = '1f1b', micro_batches = 4, weights = "
    "'double_buffer_predict', flush = false}\n";
constexpr const char* kPredictedInHalves =
    "pipeline = {order = 'zb-h1', micro_batches = 4, weights = "
    "'double_buffer_predict'}\n";
constexpr const char* kPredictedByTurns =
    "pipeline = {micro_batches = 4, weights = 'double_buffer_predict'}\n";
constexpr const char* kLatest =
    "pipeline = {order = '1f1b', micro_batches = 4}\n";

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

/// w_{j+1} = w_j - rate v, v = 0.9 v + gradient(w_{j-1}), or, predicted, the
/// gradient at w_{j-1} - rate v: plain autograd over the whole net, of which
/// Sluice gives the data and the first weights.
NamedTensors by_hand(const std::string& lines, bool is_predicted = false) {
  const Training of(small_experiment(lines));
  NamedTensors named = copies_of(of.weights());
  SampleSource source(
      of.experiment.data->train.samples(),
      {.batch_size = of.experiment.batch_size, .seed = of.experiment.seed});
  const auto find = [&](int layer, const char* member) {
    const std::string name =
        "layers." + std::to_string(layer) + ".linear." + member;
    for (std::size_t i = 0; i < named.size(); ++i)
      if (named[i].first == name) return i;
    throw InternalError("no {}", name);
  };
  Tensors now, before, velocity;
  for (const auto& [name, weight] : named) {
    now.push_back(weight.clone());
    before.push_back(weight.clone());
    velocity.push_back(at::zeros_like(weight));
  }
  for (std::int64_t turn = 0; turn < of.experiment.length.turns; ++turn) {
    const Batch batch = source.batch(turn);
    Tensors leaves;
    for (const at::Tensor& weight : before)
      leaves.push_back(weight.detach().clone().requires_grad_());
    at::Tensor x = batch.inputs.flatten(1);
    for (int layer = 0; layer < 4; ++layer) {
      x = at::linear(x, leaves[find(layer, "weight")],
                     leaves[find(layer, "bias")]);
      if (layer < 3) x = at::relu(x);
    }
    const auto gradients = torch::autograd::grad(
        {at::cross_entropy_loss(x, batch.labels)}, leaves);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < now.size(); ++i) {
      before[i] = is_predicted ? now[i] - velocity[i] * 0.05 : now[i].clone();
      velocity[i] = velocity[i] * 0.9 + gradients[i];
      now[i] = now[i] - velocity[i] * 0.05;
    }
  }
  for (std::size_t i = 0; i < now.size(); ++i) named[i].second = now[i];
  return named;
}

TEST(DoubleBuffer, TrainsAtTheWeightsBeforeTheLastUpdate) {
  const NamedTensors expected = by_hand(net("1", 0.05) + kDouble);
  EXPECT_LT(distance(trained(net(kFour, 0.05) + kFlowing), expected), 1e-5);
  EXPECT_GT(distance(trained(net(kFour, 0.05) + kLatest), expected), 1e-3);
}

TEST(DoubleBufferPredict, TrainsAtTheWeightsThatItsVelocityPredicts) {
  const NamedTensors expected = by_hand(net("1", 0.05) + kDouble, true);
  EXPECT_LT(distance(trained(net(kFour, 0.05) + kPredicted), expected), 1e-5);
  EXPECT_GT(distance(trained(net(kFour, 0.05) + kFlowing), expected), 1e-3);
}

TEST(DoubleBufferPredict, HasTheSameBitsForEveryCutOrderAndEvaluation) {
  const NamedTensors one = trained(net("1", 0.05) + kPredictedByTurns);
  for (const std::string pipeline :
       {kPredicted, kPredictedInHalves, kPredictedByTurns})
    for (const char* blocks : {"['0-1', '2-3']", kFour})
      for (const char* evaluation : {"", "evaluate_every = 0.01\n"})
        EXPECT_EQ(
            difference(trained(net(blocks, 0.05) + pipeline + evaluation), one),
            "")
            << blocks << " " << pipeline << evaluation;
}

TEST(DoubleBuffer, HasTheSameBitsForEveryCutAndFlush) {
  const NamedTensors one = trained(net("1", 0.05) + kDouble);
  for (const char* blocks : {"['0-1', '2-3']", "['0', '1-2', '3']", kFour})
    for (const char* pipeline : {kDouble, kFlowing})
      EXPECT_EQ(difference(trained(net(blocks, 0.05) + pipeline), one), "")
          << blocks << " " << pipeline;
}

TEST(DoubleBuffer, HasTheSameBitsInEveryOrder) {
  const NamedTensors one = trained(net("1", 0.05) + kDouble);
  for (const char* order : {"turns", "gpipe", "zb-h1"})
    EXPECT_EQ(
        difference(trained(net(kFour, 0.05) + "pipeline = {order = '" + order +
                           "', micro_batches = 4, weights = "
                           "'double_buffer'}\n"),
                   one),
        "")
        << order;
}

TEST(DoubleBuffer, HasTheSameBitsWhereverItIsEvaluated) {
  const std::string rest = net(kFour, 0.05) + kFlowing;
  EXPECT_EQ(
      difference(trained(rest + "evaluate_every = 0.01\n"), trained(rest)), "");
}

TEST(DoubleBuffer, IsBackpropAtLearningRateZeroAndNotAbove) {
  const auto applied = [](double lr, const char* pipeline) {
    return Training(small_experiment(net(kFour, lr) + pipeline))
        .train_and_record();
  };
  const Applications still = applied(0, kFlowing);
  const Applications plain = applied(0, kLatest);
  for (const auto& [block, updates] : still)
    EXPECT_EQ(difference(updates, plain.at(block)), "") << block;
  EXPECT_NE(
      difference(applied(0.05, kFlowing).at(1), applied(0.05, kLatest).at(1)),
      "");
}

/// A phase begins as a run does, at the weights that it finds: even one that
/// changes no policy has a window of its own, which latest weights don't
/// notice.
TEST(DoubleBuffer, BeginsAnewInEachPhaseOfATimetable) {
  const auto moved_by_a_phase = [](const char* pipeline) {
    const std::string rest = net(kFour, 0.05) + pipeline;
    return distance(
        trained(rest +
                "timetable = [{turn = 6, boundary = {policy = 'backprop'}}]\n"),
        trained(rest));
  };
  EXPECT_GT(moved_by_a_phase(kFlowing), 1e-4);
  EXPECT_EQ(moved_by_a_phase(kLatest), 0);
}

}  // namespace sluice::double_buffer_test
