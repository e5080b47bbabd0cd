// DDG: the labels G1-G9 are those of the specification (methods, section 2.6).
#include <algorithm>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/oracles/delay_oracle.h"

namespace sluice::delayed_gradient_test {

using Weights = DelayOracle::Weights;

constexpr const char* kTwoLayers =
    "blocks = ['0-1', '2-3', '4-']\n"
    "model = {hidden = [24, 20, 24, 20, 16]}\n";
constexpr const char* kOneLayer =
    "blocks = ['0', '1']\nmodel = {hidden = [24]}\n";
constexpr const char* kNorm =
    "blocks = ['0-1', '2', '3-']\n"
    "model = {hidden = [24, 20, 24], batch_norm = true}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

std::string ddg(const std::string& weights) {
  return "boundary = {policy = 'delayed_gradient', weights = '" + weights +
         "'}\n";
}
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";

Applications applications(const std::string& lines) {
  Training training(small_experiment(lines));
  return training.train_and_record();
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

Applications expected(const std::string& lines, DelayOracle::Method method) {
  return DelayOracle(Training(small_experiment(lines)), method).train();
}

void expect_same(const Applications& left, const Applications& right) {
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [block, updates] : left) {
    EXPECT_GT(updates.size(), 10U);
    EXPECT_EQ(difference(updates, right.at(block)), "") << "block " << block;
  }
}

class DelayedGradient : public testing::TestWithParam<const char*> {};

TEST_P(DelayedGradient, G1_OfOneBlockIsBackprop) {
  const std::string rest = "blocks = 1\nmodel = {hidden = [24]}\n" + rate(0.1);
  EXPECT_EQ(
      difference(trained(rest + ddg(GetParam())), trained(rest + kBackprop)),
      "");
}

TEST_P(DelayedGradient, G3_WithoutLearningIsBackpropOfTheDelayedBatch) {
  const std::string rest = kNorm + rate(0);
  expect_same(applications(rest + ddg(GetParam())),
              applications(rest + kBackprop));
}

TEST_P(DelayedGradient, G3_WithLearningIsNotBackprop) {
  const std::string rest = kNorm + rate(0.1);
  EXPECT_NE(difference(applications(rest + ddg(GetParam())).at(1),
                       applications(rest + kBackprop).at(1)),
            "");
}

TEST_P(DelayedGradient, G9_BatchNormCountsEveryBatchOnce) {
  for (const auto& [name, tensor] :
       trained(kNorm + rate(0.1) + ddg(GetParam())))
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(tensor.item<std::int64_t>(), 20) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Weights, DelayedGradient,
                         testing::Values("stash", "recompute", "mixed"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(DelayedGradient, G2_StashIsBackpropAtTheWeightsOfTheForward) {
  for (const char* net : {kTwoLayers, kOneLayer, kNorm}) {
    const std::string lines = net + rate(0.1) + ddg("stash");
    expect_same(applications(lines), expected(lines, {.rate = 0.1}));
  }
}

TEST(DelayedGradient, RecomputeHasTheBitsOfStash) {
  const std::string rest = kNorm + rate(0.1);
  expect_same(applications(rest + ddg("recompute")),
              applications(rest + ddg("stash")));
}

TEST(DelayedGradient, MixedIsABackwardByHandOfOldActivationsAndNewWeights) {
  const std::string lines = kTwoLayers + rate(0.1);
  expect_same(applications(lines + ddg("mixed")),
              expected(lines, {.weights = Weights::mixed, .rate = 0.1}));
  EXPECT_GT(distance(applications(lines + ddg("mixed")).at(1),
                     applications(lines + ddg("stash")).at(1)),
            1e-5);
}

TEST(DelayedGradient, MixedIsNotStashUnderAdamEither) {
  const std::string rest =
      std::string(kTwoLayers) + "optimizer = {name = 'adam', lr = 1e-2}\n";
  EXPECT_GT(distance(applications(rest + ddg("mixed")).at(1),
                     applications(rest + ddg("stash")).at(1)),
            1e-5);
}

TEST(DelayedGradient, G6_StashIsMixedForTwoBlocksOfOneLayer) {
  const std::string rest = kOneLayer + rate(0.1);
  expect_same(applications(rest + ddg("mixed")),
              applications(rest + ddg("stash")));
}

TEST(DelayedGradient, G4_NothingMovesBeforeTheFirstSignal) {
  // K - k turns: block 1 gets its first signal in turn 2.
  const std::string lines =
      std::string("turns = 2\ndrain = false\n") + kTwoLayers +
      "optimizer = {lr = 0.1, momentum = 0.9, weight_decay = 0.1}\n" +
      ddg("stash");
  Training training(small_experiment(lines));
  const NamedTensors before = copies_of(training.block(1).weights());
  const NamedTensors optimizer = copies_of(training.block(1).state());
  const NamedTensors above = copies_of(training.block(2).weights());
  training.train();
  EXPECT_EQ(difference(training.block(1).weights(), before), "");
  NamedTensors state = training.block(1).state();
  std::erase_if(state, [](const auto& named) {
    return named.first.starts_with("flights");
  });
  EXPECT_EQ(difference(state, optimizer), "");
  EXPECT_NE(difference(training.block(2).weights(), above), "");
}

TEST(DelayedGradient, G5_KeepsAtMostKMinusKPlusOneBatches) {
  Training training(small_experiment(kTwoLayers + rate(0.1) + ddg("stash")));
  std::map<int, std::size_t> most;
  training.watch = [&](const TimedAction& timed) {
    std::size_t& longest = most[timed.seat];
    longest = std::max(longest, training.block(timed.seat).flights());
  };
  training.train();
  EXPECT_EQ(most, (std::map<int, std::size_t>{{1, 3}, {2, 2}, {3, 1}}));
}

TEST(DelayedGradient, G7_ConvergesWhereBackpropDoes) {
  const std::string rest =
      std::string("data = {train = 32, test = 32}\nturns = 1600\n") +
      kOneLayer + rate(0.005);
  const NamedTensors backprop = trained(rest + kBackprop);
  EXPECT_LT(distance(trained(rest + ddg("stash")), backprop), 0.01);
  const NamedTensors start = Training(small_experiment(rest)).weights();
  EXPECT_GT(distance(start, backprop), 0.2);
}

/// Both counters of staleness, by block and turn.
class StalenessSink final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") != "train") return;
    const auto block = static_cast<int>(record.number("block", 0));
    const auto turn = static_cast<std::int64_t>(record.number("turn", 0));
    seen[{block, turn}] = {
        static_cast<std::int64_t>(record.number("d_batch", -1)),
        static_cast<std::int64_t>(record.number("d_upd", -1))};
  }
  std::map<std::pair<int, std::int64_t>, std::pair<std::int64_t, std::int64_t>>
      seen;
};

TEST(DelayedGradient, G8_StalenessIsKMinusKInBatchesAndUpdates) {
  const auto sink = std::make_shared<StalenessSink>();
  Training training(small_experiment("drain = false\n" +
                                     (kTwoLayers + rate(0.1)) + ddg("stash")),
                    sink);
  training.train();
  for (const auto& [at, staleness] : sink->seen) {
    const std::int64_t delay = 3 - at.first;
    EXPECT_EQ(staleness.first, delay);
    EXPECT_EQ(staleness.second, at.second >= 2 * delay
                                    ? delay
                                    : std::min(delay, at.second - delay))
        << "block " << at.first << ", turn " << at.second;
  }
  EXPECT_EQ(sink->seen.size(), 20U + 19U + 18U);
}

TEST(DelayedGradient, X9_EveryBatchIsAppliedOnceByEveryBlock) {
  for (const auto& [block, updates] :
       applications(kTwoLayers + rate(0.1) + ddg("stash"))) {
    std::int64_t next = 0;
    for (const ShownUpdate& update : updates) EXPECT_EQ(update.batch, next++);
    EXPECT_EQ(next, 20) << "block " << block;
  }
}

TEST(DelayedGradient, WithoutADrainTheLastBatchesAreNotApplied) {
  const auto applied =
      applications("drain = false\n" + (kTwoLayers + rate(0.1)) + ddg("stash"));
  EXPECT_EQ(applied.at(1).size(), 18U);
  EXPECT_EQ(applied.at(2).size(), 19U);
  EXPECT_EQ(applied.at(3).size(), 20U);
}

}  // namespace sluice::delayed_gradient_test
