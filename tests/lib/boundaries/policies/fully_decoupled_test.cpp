// FDG, ADL and DSP: the labels F1-F6 and A1-A3 are those of the specification
// (methods, sections 7.9 and 7.10).
#include <algorithm>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/oracles/delay_oracle.h"

namespace sluice::fully_decoupled_test {

using Weights = DelayOracle::Weights;

constexpr const char* kNet =
    "blocks = ['0-1', '2', '3-']\n"
    "model = {hidden = [24, 20, 24], batch_norm = true}\n";
constexpr const char* kPlain =
    "blocks = ['0-1', '2-3', '4-']\n"
    "model = {hidden = [24, 20, 24, 20, 16]}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

std::string fdg(const std::string& order = "B",
                const std::string& weights = "stash", double beta = 1) {
  return "boundary = {policy = 'fully_decoupled', order = '" + order +
         "', weights = '" + weights + "', beta = " + std::to_string(beta) +
         (weights == "current" ? ", statistics = 'forward'}\n" : "}\n");
}
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";

std::string accumulate(int batches, const std::string& rule = "sum") {
  return "accumulate = {batches = " + std::to_string(batches) + ", rule = '" +
         rule + "'}\n";
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

Applications expected(const std::string& lines, DelayOracle::Method method) {
  method.delay = 2;
  return DelayOracle(Training(small_experiment(lines)), method).train();
}

void expect_same(const Applications& left, const Applications& right) {
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [block, updates] : left) {
    EXPECT_GT(updates.size(), 4U);
    EXPECT_EQ(difference(updates, right.at(block)), "") << "block " << block;
  }
}

TEST(FullyDecoupled, F1_OfOneBlockIsBackprop) {
  const std::string rest = "blocks = 1\nmodel = {hidden = [24]}\n" + rate(0.1);
  EXPECT_EQ(difference(trained(rest + fdg()), trained(rest + kBackprop)), "");
}

TEST(FullyDecoupled, F2_ABetaOfZeroFreezesAllButTheLastBlock) {
  Training training(small_experiment(kNet + rate(0.1) + fdg("B", "stash", 0)));
  std::vector<NamedTensors> before;
  for (int block = 1; block <= 3; ++block) {
    NamedTensors weights = training.block(block).weights();
    std::erase_if(weights, [](const auto& named) {
      return !named.second.requires_grad();  // statistics move
    });
    before.push_back(copies_of(weights));
  }
  training.train();
  for (int block = 1; block <= 3; ++block) {
    NamedTensors weights = training.block(block).weights();
    std::erase_if(weights, [](const auto& named) {
      return !named.second.requires_grad();
    });
    EXPECT_EQ(difference(weights, before.at(block - 1)).empty(), block < 3)
        << block;
  }
}

TEST(FullyDecoupled, F3_StashIsBackpropAtTheWeightsOfTheForwardTimesBeta) {
  for (const char* order : {"A", "B"}) {
    const bool is_b = order == std::string("B");
    for (const double beta : {1.0, 0.5}) {
      const std::string lines = kNet + rate(0.1) + fdg(order, "stash", beta);
      expect_same(
          applications(lines),
          expected(lines, {.backward_first = is_b, .beta = beta, .rate = 0.1}));
    }
  }
}

TEST(FullyDecoupled, F3_TheOrdersDiffer) {
  EXPECT_GT(distance(applications(kNet + rate(0.1) + fdg("A")).at(1),
                     applications(kNet + rate(0.1) + fdg("B")).at(1)),
            1e-5);
}

TEST(FullyDecoupled, WithoutLearningIsBackpropOfTheDelayedBatch) {
  for (const char* weights : {"stash", "recompute", "mixed", "current"})
    expect_same(applications(kNet + rate(0) + fdg("B", weights)),
                applications(kNet + rate(0) + kBackprop));
}

TEST(FullyDecoupled, MixedAndCurrentFollowTheirEquations) {
  const std::string lines = kPlain + rate(0.1);
  expect_same(applications(lines + fdg("B", "mixed", 0.5)),
              expected(lines, {.backward_first = true,
                               .weights = Weights::mixed,
                               .beta = 0.5,
                               .rate = 0.1}));
  expect_same(applications(lines + fdg("B", "current")),
              expected(lines, {.backward_first = true,
                               .weights = Weights::of_today,
                               .rate = 0.1}));
}

/// The first turn, counted from 0, in which a block goes backward.
TEST(FullyDecoupled, F4_TheFirstBackwardIsInTickTwoKMinusKMinusOne) {
  const Applications applied = applications(kNet + rate(0.1) + fdg());
  const auto tick = [&](int block) {
    return applied.at(block).front().turn + block - 1;
  };
  EXPECT_EQ(tick(1), 2 * 3 - 1 - 1);
  EXPECT_EQ(tick(2), 2 * 3 - 2 - 1);
  EXPECT_EQ(tick(3), 3 - 1);
}

/// d_upd by block and turn.
class UpdatesBetween final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "train")
      seen[{static_cast<int>(record.number("block", 0)),
            static_cast<int>(record.number("turn", 0))}] =
          static_cast<int>(record.number("d_upd", -1));
  }
  std::map<std::pair<int, int>, int> seen;
};

std::map<std::pair<int, int>, int> updates_between(const std::string& lines) {
  const auto sink = std::make_shared<UpdatesBetween>();
  Training training(small_experiment("drain = false\n" + lines), sink);
  training.train();
  return sink->seen;
}

TEST(FullyDecoupled, F5_StalenessInUpdatesIsThatOfItsOrder) {
  for (const char* order : {"A", "B"}) {
    const int less = order == std::string("B") ? 1 : 0;
    for (const auto& [at, count] :
         updates_between(kNet + rate(0.1) + fdg(order))) {
      const int delay = 2 * (3 - at.first);
      if (at.second < 2 * delay) continue;
      EXPECT_EQ(count, std::max(0, delay - less))
          << order << ", block " << at.first << ", turn " << at.second;
    }
  }
}

TEST(FullyDecoupled, F6_ABackpropBoundaryBelowKeepsTheWeightsOfItsForwards) {
  const std::string lines = std::string(kNet) + rate(0.1) +
                            "boundary = {1 = {policy = 'backprop'}, 2 = "
                            "{policy = 'delayed_gradient'}}\n";
  const Experiment experiment = small_experiment(lines);
  EXPECT_EQ(experiment.plans[0].blocks[0].delay, 1);
  EXPECT_EQ(experiment.plans[0].blocks[0].weights.view, "stash");
  // With a block that ends nowhere, DDG in two blocks.
  const std::string joined = std::string("blocks = ['0-2', '3-']\n") +
                             "model = {hidden = [24, 20, 24], batch_norm = "
                             "true}\nboundary = {policy = "
                             "'delayed_gradient'}\n" +
                             rate(0.1);
  EXPECT_EQ(difference(trained(lines), trained(joined)), "");
}

TEST(Accumulation, A1_OfOneBatchIsNone) {
  const std::string rest = kNet + rate(0.1) + fdg();
  expect_same(applications(rest + accumulate(1)), applications(rest));
}

/// The sum of the gradients of each window, times `scale`.
std::vector<ShownUpdate> windows(const std::vector<ShownUpdate>& single,
                                 std::size_t of, double scale) {
  std::vector<ShownUpdate> sums;
  for (std::size_t first = 0; first + of <= single.size(); first += of) {
    ShownUpdate sum = single[first];
    for (std::size_t i = first + 1; i < first + of; ++i)
      for (std::size_t j = 0; j < sum.gradients.size(); ++j)
        sum.gradients[j] = sum.gradients[j] + single[i].gradients[j];
    sum.batch = single[first + of - 1].batch;
    if (scale != 1)
      for (at::Tensor& gradient : sum.gradients) gradient = gradient * scale;
    sums.push_back(sum);
  }
  return sums;
}

TEST(Accumulation, A2_WithoutLearningAddsTheGradientsOfItsBatches) {
  const std::string rest = kNet + rate(0) + fdg("B", "stash", 0.5);
  const Applications single = applications(rest);
  for (const char* rule : {"sum", "mean"}) {
    const double scale = rule == std::string("mean") ? 0.25 : 1;
    const Applications accumulated = applications(rest + accumulate(4, rule));
    for (int block = 1; block <= 3; ++block)
      EXPECT_EQ(difference(accumulated.at(block),
                           windows(single.at(block), 4, scale)),
                "")
          << rule << ", block " << block;
  }
}

TEST(Accumulation, A2_WithLearningItIsNotTheSameAsSteppingAtOnce) {
  const std::string rest = kNet + rate(0.1) + fdg();
  EXPECT_GT(distance(applications(rest + accumulate(4)).at(1),
                     windows(applications(rest).at(1), 4, 1)),
            1e-5);
}

TEST(Accumulation, A3_StepsOncePerWindowAndDropsAnIncompleteOne) {
  const std::string rest = kNet + rate(0.1) + fdg();
  for (const auto& [block, updates] : applications(rest + accumulate(3)))
    EXPECT_EQ(updates.size(), 20U / 3) << block;
}

TEST(Accumulation, LogsTheFirstUpdateAfterADueTurn) {
  std::vector<int> turns;
  for (const auto& [at, count] :
       updates_between(std::string("blocks = 1\nlog_every = 10\n") +
                       "model = {hidden = [24]}\n" + accumulate(4)))
    turns.push_back(at.second);
  EXPECT_EQ(turns, (std::vector<int>{3, 11}));
}

TEST(Accumulation, DividesTheStaleness) {
  for (const auto& [at, count] :
       updates_between(kNet + rate(0.1) + fdg("A") + accumulate(4)))
    if (at.second >= 12) {
      EXPECT_LE(count, 1) << at.first << ", " << at.second;
    }
}

}  // namespace sluice::fully_decoupled_test
