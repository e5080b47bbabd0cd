// What holds for every method: the labels X1-X9 are those of the specification
// (section 11).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/blocks/adapters.h"
#include "tests/experiments/helpers/methods.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::every_method_test {

constexpr const char* kMlp =
    "blocks = ['0', '1', '2-']\n"
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) +
         ", momentum = 0.9, weight_decay = 0.01}\n";
}

Applications applications(const std::string& lines) {
  Training training(small_experiment(lines));
  return training.train_and_record();
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

class EveryMethod : public testing::TestWithParam<MethodUnderTest> {
 protected:
  std::string net(double lr = 0.05) const {
    return kMlp + rate(lr) + "boundary = " + GetParam().boundary + "\n";
  }
};

TEST_P(EveryMethod, X2_NoGradientDependsOnALaterBatch) {
  const Applications few = applications("turns = 6\ndrain = false\n" + net());
  const Applications more = applications("turns = 12\ndrain = false\n" + net());
  ASSERT_EQ(few.size(), 3U);
  for (const auto& [block, updates] : few) {
    std::vector<ShownUpdate> before = more.at(block);
    ASSERT_GE(before.size(), updates.size());
    before.resize(updates.size());
    EXPECT_EQ(difference(updates, before), "") << "block " << block;
  }
}

TEST_P(EveryMethod, X2_EveryGradientDependsOnItsBatch) {
  const Applications one = applications("turns = 6\n" + net(0));
  ASSERT_EQ(one.size(), 3U);
  for (const auto& [block, updates] : one)
    for (std::size_t i = 1; i < updates.size(); ++i)
      for (std::size_t j = 0; j < updates[i].gradients.size(); ++j) {
        const at::Tensor& gradient = updates[i].gradients[j];
        // A synthesizer that never learns says 0 whatever comes.
        if (gradient.any().item<bool>()) {
          EXPECT_FALSE(gradient.equal(updates[i - 1].gradients[j]))
              << "block " << block;
        }
      }
}

/// Methods whose gradients are the true ones when nothing learns.
class TrueMethod : public EveryMethod {};

TEST_P(TrueMethod, X3_WithoutLearningDelayedGradientsAreBackprops) {
  const Applications found = applications("turns = 8\n" + net(0));
  const Applications expected =
      applications(std::string("turns = 8\n") + kMlp + rate(0) +
                   "boundary = {policy = 'backprop'}\n");
  ASSERT_EQ(found.size(), 3U);
  for (const auto& [block, updates] : found)
    EXPECT_EQ(difference(updates, expected.at(block)), "") << "block " << block;
}

TEST_P(EveryMethod, X3_WithLearningOnlyBackpropIsBackprop) {
  const Applications found = applications("turns = 8\n" + net());
  const Applications backprop =
      applications(std::string("turns = 8\n") + kMlp + rate(0.05) +
                   "boundary = {policy = 'backprop'}\n");
  std::vector<ShownUpdate> own = found.at(1);
  for (ShownUpdate& update : own)
    update.gradients.resize(backprop.at(1)[0].gradients.size());
  EXPECT_EQ(difference(own, backprop.at(1)).empty(),
            GetParam().name == "Backprop");
}

TEST_P(EveryMethod, X4_RepeatsItsBits) {
  EXPECT_EQ(difference(trained(net()), trained(net())), "");
}

/// Without statistics, which move in the forward.
NamedTensors learned_weights(Seat& seat) {
  NamedTensors weights = copies_of(seat.weights());
  std::erase_if(weights, [](const auto& named) {
    return named.first.find("running") != std::string::npos ||
           named.first.find("num_batches") != std::string::npos;
  });
  return weights;
}

/// Whether the action comes before the block's first backward.
bool is_before_signal(const BlockPlan& plan, const Action& action) {
  if (action.turn != plan.delay) return action.turn < plan.delay;
  return action.op == Op::forward &&
         (plan.delay == 0 || plan.order == Order::forward_first);
}

TEST_P(EveryMethod, X5_NothingMovesBeforeTheFirstSignal) {
  const Experiment experiment = small_experiment("turns = 6\n" + net());
  Training training(experiment);
  std::vector<NamedTensors> before;
  for (int block = 1; block <= 3; ++block)
    before.push_back(learned_weights(training.block(block)));
  std::vector<int> looks(3);
  training.watch = [&](const TimedAction& timed) {
    const auto index = static_cast<std::size_t>(timed.seat) - 1;
    if (!is_before_signal(experiment.plans[0].blocks[index], timed.action))
      return;
    ++looks[index];
    EXPECT_EQ(
        difference(learned_weights(training.block(timed.seat)), before[index]),
        "")
        << "block " << timed.seat;
  };
  training.train();
  EXPECT_THAT(looks, testing::Each(testing::Gt(0)));
}

/// Whether a block takes old activations to weights that are not theirs.
bool meets_other_weights(const Experiment& experiment) {
  return std::any_of(
      experiment.plans[0].blocks.begin(), experiment.plans[0].blocks.end(),
      [](const BlockPlan& plan) {
        return plan.sees_old_weights() && (plan.weights.view == "mixed" ||
                                           plan.weights.view == "extrapolate");
      });
}

TEST_P(EveryMethod, X6_KeepsNoMoreBatchesThanItsDelayAndOneMore) {
  const Experiment experiment = small_experiment(net());
  Training training(experiment);
  training.watch = [&](const TimedAction& timed) {
    const BlockPlan& plan = by_block(experiment.plans[0].blocks, timed.seat);
    const bool backward_first =
        plan.order == Order::backward_first && plan.delay > 0;
    const auto most =
        static_cast<std::size_t>(plan.delay + (backward_first ? 0 : 1));
    const Seat& worker = training.block(timed.seat);
    EXPECT_LE(worker.flights(), most);
    const bool replays = plan.delay > 0 && plan.weights.replays();
    EXPECT_LE(worker.graphs(), replays ? 0 : most);
  };
  training.train();
}

TEST_P(EveryMethod, X6_LayersThatRunAgainHaveTheSameBits) {
  const std::string kept = "turns = 8\n" + net();
  const std::string again = "checkpoint_layers = 1\n" + kept;
  if (meets_other_weights(small_experiment(kept))) {
    EXPECT_THAT([&] { small_experiment(again); },
                testing::ThrowsMessage<UserError>(
                    testing::HasSubstr("its layers run again")));
    return;
  }
  EXPECT_EQ(difference(trained(again), trained(kept)), "");
}

/// The model's own weights, which adapters don't belong to.
NamedTensors weights_of_model(const NamedTensors& weights) {
  NamedTensors own;
  for (const auto& named : weights)
    if (named.first.starts_with("layers.") && !is_of_adapter(named.first) &&
        named.first.find("running") == std::string::npos &&
        named.first.find("num_batches") == std::string::npos)
      own.push_back(named);
  return own;
}

NamedTensors adapters_in(const NamedTensors& weights) {
  NamedTensors adapters;
  for (const auto& named : weights)
    if (named.first.starts_with("layers.") && is_of_adapter(named.first))
      adapters.push_back(named);
  return adapters;
}

TEST_P(EveryMethod, TrainsAdaptersOfFrozenWeights) {
  Training training(
      small_experiment("turns = 8\nfine_tune.lora.rank = 2\n" + net()));
  const NamedTensors before = copies_of(training.weights());
  training.train();
  const NamedTensors after = training.weights();
  EXPECT_EQ(difference(weights_of_model(after), weights_of_model(before)), "");
  EXPECT_NE(difference(adapters_in(after), adapters_in(before)), "");
}

TEST_P(EveryMethod, X7_EvaluationChangesNothing) {
  EXPECT_EQ(difference(trained("evaluate_every = 0.3\n" + net()),
                       trained("evaluate_every = 0\n" + net())),
            "");
}

TEST_P(EveryMethod, X9_EveryBatchIsAppliedOnceByEveryBlock) {
  for (const auto& [block, updates] : applications(net())) {
    ASSERT_EQ(updates.size(), 20U) << "block " << block;
    for (std::size_t i = 0; i < updates.size(); ++i)
      EXPECT_EQ(updates[i].batch, static_cast<std::int64_t>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, testing::ValuesIn(methods()),
                         [](const auto& info) { return info.param.name; });

std::vector<MethodUnderTest> true_methods() {
  std::vector<MethodUnderTest> all = methods();
  std::erase_if(all, [](const auto& m) { return !m.is_true_without_learning; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Methods, TrueMethod, testing::ValuesIn(true_methods()),
                         [](const auto& info) { return info.param.name; });

/// The metrics.
class RecordList final : public Sink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  std::vector<Record> records;
};

double figure(const std::string& boundary, int block, const char* name) {
  const auto kept = std::make_shared<RecordList>();
  Training training(
      small_experiment(kMlp + rate(0.05) + "boundary = " + boundary + "\n"),
      kept);
  training.train();
  for (const Record& record : kept->records)
    if (record.text("kind") == "block" && record.number("block", 0) == block)
      return record.number(name, -1);
  return -1;
}

/// Bytes of a batch of 32 samples of so many floats, and its labels.
double batch_of(int floats) {
  return 32 * (4.0 * floats + 8);
}

TEST(MemoryLedger, CountsTheInputsOfBatchesInFlight) {
  // Block 2 of three: at most d + 1 = 2 batches of DDG; block 1 holds images.
  EXPECT_EQ(figure("{policy = 'delayed_gradient'}", 1, "history_bytes"),
            3 * batch_of(784));
  EXPECT_EQ(figure("{policy = 'delayed_gradient'}", 2, "history_bytes"),
            2 * batch_of(24));
  EXPECT_EQ(figure("{policy = 'backprop'}", 2, "history_bytes"), batch_of(24));
}

TEST(MemoryLedger, CountsTheWeightsThatAreStashed) {
  // linear, its bias, and BatchNorm's two: of three forwards, the last of which
  // was with the weights that the block still has
  const double weights = 4.0 * (784 * 24 + 3 * 24);
  EXPECT_EQ(figure("{policy = 'delayed_gradient'}", 1, "stash_bytes"),
            2 * weights);
  EXPECT_EQ(figure("{policy = 'delayed_gradient', weights = 'recompute'}", 1,
                   "stash_bytes"),
            2 * weights);
  EXPECT_EQ(figure("{policy = 'features_replay', statistics = 'replay'}", 1,
                   "stash_bytes"),
            0);
  EXPECT_EQ(figure("{policy = 'backprop'}", 1, "stash_bytes"), 0);
}

}  // namespace sluice::every_method_test
