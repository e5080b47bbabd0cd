// DGL's asynchronous form: blocks that run free, with replay buffers between
// them. The labels B3 and B4 are those of the specification (methods, section
// 5.6).
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::replay_buffer_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2-']\n"
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9, weight_decay = 0.01}\n"
    "evaluate_every = 0.7\n";
constexpr const char* kSynchronous = "boundary = {policy = 'local_loss'}\n";

std::string buffered(const std::string& buffer) {
  return "schedule = 'free'\nboundary = {policy = 'local_loss', buffer = {" +
         buffer + "}}\n";
}

Costs costs_with(const std::vector<double>& slowness) {
  Costs costs;
  for (const double slow : slowness)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

NamedTensors trained(const std::string& lines, const Costs& costs = {}) {
  Training training(small_experiment(kNet + lines));
  training.train(costs);
  return training.weights();
}

TEST(ReplayedInputs, B3_OfOneBatchInTurnsHaveTheBitsOfSynchronousDgl) {
  const NamedTensors synchronous = trained(kSynchronous);
  for (const char* order : {"priority_lifo", "fifo", "reservoir"}) {
    const std::string one = buffered(
        std::string("batches = 1, max_reuse = 0, order = '") + order + "'");
    EXPECT_EQ(difference(trained(one), synchronous), "") << order;
  }
  const std::string one = buffered("batches = 1");
  EXPECT_EQ(difference(trained(one, costs_with({1, 1, 1})), synchronous), "");
}

TEST(ReplayedInputs, B3_OfBlocksOfUnequalSpeedDoNot) {
  EXPECT_GT(distance(trained(buffered("batches = 1"), costs_with({3, 1, 1})),
                     trained(kSynchronous)),
            1e-3);
}

/// By block and counter: how often a value was measured.
class StalenessTimes final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "staleness")
      times[static_cast<int>(record.number("block", 0))][record.text("counter")]
           [static_cast<std::int64_t>(record.number("value", -1))] =
               static_cast<std::int64_t>(record.number("times", 0));
    evaluations += record.text("kind") == "evaluation";
  }
  std::map<int, std::map<std::string, std::map<std::int64_t, std::int64_t>>>
      times;
  int evaluations = 0;
};

std::shared_ptr<StalenessTimes> measured(const std::string& lines,
                                         const Costs& costs) {
  const auto sink = std::make_shared<StalenessTimes>();
  Training training(small_experiment(kNet + lines), sink);
  training.train(costs);
  return sink;
}

using Counts = std::map<std::int64_t, std::int64_t>;

TEST(ReplayedInputs, B4_InOneOrderWithoutReuseAreUsedOnce) {
  for (const char* order : {"priority_lifo", "fifo", "reservoir"}) {
    const auto seen =
        measured(buffered(std::string("batches = 4, max_reuse = 0, order = '") +
                          order + "'"),
                 costs_with({1, 1, 1}));
    for (int block = 2; block <= 3; ++block) {
      EXPECT_EQ(seen->times.at(block).at("input_reuse"), (Counts{{0, 20}}));
      EXPECT_EQ(seen->times.at(block).at("input_age"), (Counts{{0, 20}}));
      EXPECT_EQ(seen->times.at(block).at("d_batch"), (Counts{{0, 20}}));
    }
  }
}

TEST(ReplayedInputs, AreUsedAgainWhereTheBlockBelowIsSlow) {
  const auto seen = measured(buffered("batches = 2"), costs_with({1, 4, 1}));
  EXPECT_GT(seen->times.at(3).at("input_reuse").rbegin()->first, 1);
  EXPECT_EQ(seen->evaluations, 3);
}

TEST(ReplayedInputs, AreNeverUsedMoreOftenThanAllowed) {
  const auto seen =
      measured(buffered("batches = 2, max_reuse = 1"), costs_with({1, 4, 1}));
  EXPECT_EQ(seen->times.at(3).at("input_reuse").rbegin()->first, 1);
}

/// What a policy has been given: copies of features and labels, in the order of
/// the turns.
using PolicyInputs = std::vector<std::pair<at::Tensor, at::Tensor>>;

class WatchedPolicy final : public Lower {
 public:
  WatchedPolicy(std::unique_ptr<Lower> policy,
                std::shared_ptr<PolicyInputs> seen)
      : policy_(std::move(policy)), seen_(std::move(seen)) {}
  Traits traits() const override { return policy_->traits(); }
  Signal signal(const BatchContext& context) override {
    seen_->emplace_back(context.features[0].detach().clone(),
                        context.labels.clone());
    return policy_->signal(context);
  }
  NamedTensors parameters() const override { return policy_->parameters(); }
  NamedTensors buffers() const override { return policy_->buffers(); }

 private:
  std::unique_ptr<Lower> policy_;
  std::shared_ptr<PolicyInputs> seen_;
};

/// What block 2 makes of its inputs while nothing learns: a function of the
/// batch alone.
PolicyInputs seen_above_block_2(const std::string& boundary,
                                const Costs& costs) {
  Experiment experiment = small_experiment(
      "blocks = 3\nmodel = {hidden = [24, 20]}\noptimizer = {lr = 0}\n" +
      boundary);
  const auto seen = std::make_shared<PolicyInputs>();
  MakeLower& make = experiment.phases[0][1].make.lower;
  make = [make, seen](const BoundarySite& site) {
    return std::make_unique<WatchedPolicy>(make(site), seen);
  };
  Training training(experiment);
  training.train(costs);
  return *seen;
}

TEST(ReplayedInputs, NeverPartFromTheirLabels) {
  const PolicyInputs batches = seen_above_block_2(kSynchronous, {});
  for (const char* order : {"priority_lifo", "fifo", "reservoir"}) {
    const PolicyInputs replayed = seen_above_block_2(
        buffered(std::string("batches = 3, order = '") + order + "'"),
        costs_with({3, 1, 1}));
    ASSERT_EQ(replayed.size(), 20U);
    std::set<std::size_t> used;
    for (const auto& [features, labels] : replayed)
      for (std::size_t batch = 0; batch < batches.size(); ++batch)
        if (features.equal(batches[batch].first)) {
          EXPECT_TRUE(labels.equal(batches[batch].second)) << order;
          used.insert(batch);
        }
    EXPECT_GT(used.size(), 4U) << order;
    EXPECT_LT(used.size(), 20U) << order;
  }
}

}  // namespace sluice::replay_buffer_test
