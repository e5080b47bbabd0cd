// The gradient-truth probe where blocks run free. What a gradient is compared
// with is the model through which the turn's batch went up: each block with the
// weights with which it forwarded it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_probe_test {

constexpr const char* kFree =
    "turns = 12\nblocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n"
    "schedule = 'free'\nboundary = {policy = 'delayed_gradient'}\n";

std::string lines_with(double rate, int in_flight) {
  return fmt::format("{}optimizer = {{lr = {}}}\nin_flight = {}\n", kFree, rate,
                     in_flight);
}

/// Block 2 is slow, and messages are under way for a while.
Costs costs() {
  Costs costs{.latency = 0.5, .jitter = 0.8, .seed = 3};
  for (const double slow : {1., 4., 2.})
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

class Probes final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "probe") records.push_back(record);
  }
  std::vector<Record> records;
};

std::vector<Record> probed(const std::string& lines, int every = 1) {
  const auto probes = std::make_shared<Probes>();
  Training training(
      small_experiment(fmt::format("{}probe = {{every = {}}}\n", lines, every)),
      probes);
  training.train(costs());
  return probes->records;
}

TEST(FreeProbe, X10_WithoutLearningEveryGradientIsTrue) {
  const auto records = probed(lines_with(0, 4));
  EXPECT_EQ(records.size(), 12U * 3);
  for (const Record& record : records) {
    EXPECT_NEAR(record.number("cosine", 0), 1, 1e-6);
    EXPECT_NEAR(record.number("norm_ratio", 0), 1, 1e-6);
  }
}

TEST(FreeProbe, FreeProbeOfOneBatchInFlightIsTrueWhileItLearns) {
  const auto records = probed(lines_with(0.5, 1));
  EXPECT_EQ(records.size(), 12U * 3);
  for (const Record& record : records)
    EXPECT_NEAR(record.number("cosine", 0), 1, 1e-6);
}

TEST(FreeProbe, LooksEverySoManyTurns) {
  const auto records = probed(lines_with(0.1, 4), 5);
  EXPECT_FALSE(records.empty());
  for (const Record& record : records) EXPECT_EQ(record.integer("turn") % 5, 0);
}

TEST(FreeProbe, DoesNotChangeTheBits) {
  const std::string lines = lines_with(0.1, 4);
  Training with(small_experiment(lines + "probe = {every = 3}\n"),
                std::make_shared<Probes>());
  Training without(small_experiment(lines));
  with.train(costs());
  without.train(costs());
  EXPECT_EQ(difference(with.weights(), without.weights()), "");
}

/// Weights of a block when it forwards a batch, by name.
using ForwardWeights =
    std::map<std::pair<int, std::int64_t>, std::map<std::string, at::Tensor>>;

/// By plain autograd: that of block 1, of one batch, where each block has the
/// weights with which it forwarded another.
at::Tensor gradient(const Batch& data, std::int64_t at_batch,
                    const ForwardWeights& weights) {
  Tensors leaves;
  at::Tensor x = data.inputs.flatten(1);
  for (int block = 1; block <= 3; ++block) {
    const auto& own = weights.at({block, at_batch});
    const std::string layer = fmt::format("layers.{}.linear.", block - 1);
    leaves.push_back(own.at(layer + "weight").clone().requires_grad_());
    leaves.push_back(own.at(layer + "bias").clone().requires_grad_());
    x = at::linear(x, leaves[leaves.size() - 2], leaves.back());
    if (block < 3) x = at::relu(x);
  }
  const auto all = torch::autograd::grad(
      {at::cross_entropy_loss(x, data.labels)}, {leaves[0], leaves[1]});
  return at::cat({all[0].flatten(), all[1].flatten()}).to(at::kDouble);
}

double cosine(const at::Tensor& left, const at::Tensor& right) {
  return (left.dot(right) / (left.norm() * right.norm())).item<double>();
}

/// Cosines of block 1, by turn and batch: its gradients are exact at the
/// weights of the batch's forward.
std::map<std::pair<std::int64_t, std::int64_t>, double> cosines(
    const std::string& lines) {
  Training training(small_experiment(lines));
  SampleSource source(training.experiment.data->train.samples(),
                      {.batch_size = 32, .seed = training.experiment.seed});
  ForwardWeights weights;
  std::vector<std::pair<std::int64_t, std::int64_t>> applied;
  training.watch = [&](const TimedAction& timed) {
    const Action& action = timed.action;
    if (action.op == Op::forward)
      for (const auto& [name, tensor] : training.block(timed.seat).weights())
        weights[{timed.seat, action.batch}][name] = tensor.detach().clone();
    if (timed.seat == 1 && action.op == Op::backward)
      applied.emplace_back(action.turn, action.batch);
  };
  training.train(costs());
  std::map<std::pair<std::int64_t, std::int64_t>, double> found;
  for (const auto& [turn, batch] : applied) {
    const Batch data = source.batch(batch);
    found[{turn, batch}] =
        cosine(gradient(data, batch, weights), gradient(data, turn, weights));
  }
  return found;
}

TEST(FreeProbe, ComparesWithTheModelThatForwardedTheTurnsBatch) {
  const std::string lines = lines_with(0.3, 4);
  const auto expected = cosines(lines);
  ASSERT_EQ(expected.size(), 12U);
  int compared = 0;
  double least = 1;
  for (const Record& record : probed(lines)) {
    if (record.integer("block") != 1) continue;
    ++compared;
    const double found = record.number("cosine", 0);
    least = std::min(least, found);
    EXPECT_NEAR(found,
                expected.at({record.integer("turn"), record.integer("batch")}),
                1e-5);
  }
  EXPECT_EQ(compared, 12);
  EXPECT_LT(least, 0.999) << "nothing was stale";
}

class FreeProbeOn : public Program,
                    public testing::WithParamInterface<const char*> {
 protected:
  std::vector<Record> probes(double rate) {
    const std::string config = write(
        "config.toml",
        config_with(fmt::format(
            "engine = '{}'\nblocks = ['0', '1', '2-']\nschedule = 'free'\n"
            "in_flight = 4\nprobe = {{every = 3}}\noptimizer = {{lr = {}}}\n"
            "model = {{hidden = [24, 20], dropout = 0.2}}\n"
            "boundary = {{policy = 'delayed_gradient'}}\n",
            GetParam(), rate)));
    const Outcome run =
        sluice("run " + config + " --overwrite --dir " + path("run"));
    EXPECT_EQ(run.status, 0) << run.text;
    return records_of(path("run"), "probe");
  }
};

TEST_P(FreeProbeOn, WithoutLearningEveryGradientIsTrue) {
  const auto records = probes(0);
  EXPECT_GE(records.size(), 4U) << "block 3 applies each batch in its turn";
  for (const Record& record : records) {
    EXPECT_EQ(record.integer("turn") % 3, 0);
    EXPECT_NEAR(record.number("cosine", 0), 1, 1e-6);
  }
}

TEST_P(FreeProbeOn, IsReplayedBitForBit) {
  EXPECT_FALSE(probes(0.1).empty());
  EXPECT_EQ(sluice("replay " + path("run")).status, 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, FreeProbeOn,
                         testing::Values("threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace sluice::free_probe_test
