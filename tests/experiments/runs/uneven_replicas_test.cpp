// Blocks with different numbers of replicas, as networks train by them: a turn
// is as many batches for every block, whoever works at them.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::uneven_runs_test {

using replica_runs::parameters_of;
using replica_runs::trained;

constexpr const char* kTwo =
    "blocks = ['0', '1-']\nbatch_size = 8\n"
    "model = {hidden = [24, 20], dropout = 0.2}\n";
constexpr const char* kThree =
    "blocks = ['0', '1', '2']\nbatch_size = 8\n"
    "model = {hidden = [24, 20], dropout = 0.2}\n";
constexpr const char* kMaps =
    "blocks = ['0', '1-']\nbatch_size = 8\n"
    "model = {name = 'conv3', channels = 8}\n";

std::string replicas(const std::string& count, const std::string& more = "") {
  return "replicas = {count = " + count + more + "}\n";
}

std::string turns(int count) {
  return "turns = " + std::to_string(count) + "\n";
}

/// So many turns for each update.
std::string accumulated(int turns_of_update, int updates) {
  return turns(turns_of_update * updates) +
         "accumulate = {batches = " + std::to_string(turns_of_update) +
         ", rule = 'mean'}\n";
}

/// Tensors of `all` that `others` has too.
NamedTensors among(NamedTensors all, const NamedTensors& others) {
  std::map<std::string, at::Tensor> names(others.begin(), others.end());
  std::erase_if(
      all, [&](const auto& named) { return !names.contains(named.first); });
  return all;
}

class UnevenMethods : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    UnevenReplicas, UnevenMethods,
    testing::Values("boundary.policy = 'backprop'\n",
                    "boundary = {policy = 'local_loss', head = {name = "
                    "'linear'}}\n",
                    "boundary.policy = 'local_loss'\noptimizer = {name = "
                    "'adamw', lr = 1e-3}\n",
                    "boundary.policy = 'target_projection'\n"));

// One replica adds up its batches in the order in which several would add up
// theirs.
TEST_P(UnevenMethods, ReplicasOfTwoAndOneHaveTheBitsOfAccumulatedTurns) {
  const std::string net = std::string(kTwo) + GetParam();
  const auto one = trained(net + accumulated(2, 6))[0];
  const auto even = trained(net + turns(6) + replicas("2"))[0];
  for (const char* count : {"[2, 1]", "[1, 2]"}) {
    const auto all = trained(net + turns(6) + replicas(count));
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(difference(all[0], one), "") << count;
    EXPECT_EQ(difference(all[0], even), "") << count;
    // The second has one of the blocks.
    EXPECT_LT(all[1].size(), all[0].size()) << count;
    EXPECT_FALSE(all[1].empty()) << count;
    EXPECT_EQ(difference(all[1], among(one, all[1])), "") << count;
  }
}

TEST_P(UnevenMethods, ReplicasOfTwoAndOneGoElsewhereThanOneReplica) {
  const std::string net = std::string(kTwo) + GetParam() + turns(6);
  EXPECT_GT(distance(trained(net + replicas("[2, 1]"))[0], trained(net)[0]),
            1e-5);
}

class UnevenDelays : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    UnevenReplicas, UnevenDelays,
    testing::Values("boundary.policy = 'delayed_gradient'\n",
                    "boundary = {policy = 'delayed_gradient', weights = "
                    "'mixed'}\n",
                    "boundary.policy = 'features_replay'\n",
                    "boundary.policy = 'fully_decoupled'\n"));

// Delays count turns.
TEST_P(UnevenDelays, ReplicasOfOneAndManyHaveTheBitsOfOneNumber) {
  const std::string net = std::string(kThree) + GetParam() + turns(8);
  const auto even = trained(net + replicas("2"))[0];
  for (const char* count : {"[2, 1, 2]", "[1, 2, 1]", "[1, 1, 2]"})
    for (const NamedTensors& replica : trained(net + replicas(count)))
      EXPECT_EQ(difference(replica, among(even, replica)), "") << count;
  EXPECT_GT(distance(even, trained(net)[0]), 1e-5);
  EXPECT_GT(distance(even, trained(std::string(kThree) + turns(8) +
                                   replicas("[2, 1, 2]"))[0]),
            1e-5);
}

// Blocks that have several replicas keep shards.
TEST(UnevenReplicas, MayKeepShardsOfTheOptimizer) {
  for (const char* more : {"", "optimizer.clip.norm = 0.1\n"}) {
    const std::string net =
        std::string(kThree) + turns(6) + more + "optimizer.name = 'adamw'\n";
    for (const char* count : {"[2, 1, 2]", "[4, 2, 1]"}) {
      const auto whole = trained(net + replicas(count));
      const auto shards = trained(net + replicas(count, ", shard = true"));
      for (std::size_t r = 0; r < whole.size(); ++r)
        EXPECT_EQ(difference(shards[r], whole[r]), "") << count;
    }
  }
}

TEST(UnevenReplicas, ReplicasOfThreeBlocksHaveTheBitsOfAccumulatedTurns) {
  const std::string net = kThree;
  const auto one = trained(net + accumulated(3, 5))[0];
  for (const char* count : {"[3, 1, 3]", "[1, 3, 1]", "[3, 3, 1]"})
    for (const NamedTensors& replica :
         trained(net + turns(5) + replicas(count)))
      EXPECT_EQ(difference(replica, among(one, replica)), "") << count;
}

TEST(UnevenReplicas, MayUpdateAfterSeveralTurns) {
  const std::string net =
      std::string(kTwo) + "optimizer = {name = 'sgd', lr = 0.05}\n";
  const auto all = trained(net + accumulated(2, 3) + replicas("[2, 1]"));
  EXPECT_LT(distance(all[0], trained(net + accumulated(4, 3))[0]), 1e-6);
  EXPECT_GT(distance(all[0], trained(net + accumulated(2, 3))[0]), 1e-5);
}

// (1 + 3) + (2 + 4) is not ((1 + 2) + 3) + 4 in the last bits.
TEST(UnevenReplicas, ReplicasOfSeveralWithSeveralBatchesSumThemInAnotherOrder) {
  const std::string net =
      std::string(kTwo) + "optimizer = {name = 'sgd', lr = 0.05}\n";
  const auto one = trained(net + accumulated(4, 6))[0];
  for (const char* count : {"[4, 2]", "[2, 4]"}) {
    const auto all = trained(net + turns(6) + replicas(count));
    EXPECT_LT(distance(all[0], one), 1e-6) << count;
    // Replicas of a block have equal bits even so.
    for (const NamedTensors& replica : all)
      EXPECT_EQ(difference(replica, among(all[0], replica)), "") << count;
  }
  EXPECT_GT(distance(trained(net + turns(6) + replicas("[2, 1]"))[0], one),
            1e-5);
}

TEST(UnevenReplicas, ReplicasOfOneNumberAreThatNumber) {
  const std::string net = std::string(kTwo) + turns(6);
  for (const char* number : {"1", "2", "3"}) {
    const std::string list = std::string("[") + number + ", " + number + "]";
    const auto listed = trained(net + replicas(list));
    const auto plain = trained(net + replicas(number));
    ASSERT_EQ(listed.size(), plain.size());
    for (std::size_t r = 0; r < plain.size(); ++r)
      EXPECT_EQ(difference(listed[r], plain[r]), "") << list;
  }
  EXPECT_EQ(difference(trained(net + replicas("[1, 1]"))[0], trained(net)[0]),
            "");
  EXPECT_GT(distance(trained(net + replicas("[2, 1]"))[0], trained(net)[0]),
            1e-5);
}

// What a batch does to the gradient doesn't depend on the statistics, and they
// move once for each batch that a replica has.
TEST(UnevenReplicas, KeepStatisticsOfTheirOwnBatches) {
  const std::string net = kMaps;
  const auto one = trained(net + accumulated(2, 4))[0];
  const auto all = trained(net + turns(4) + replicas("[2, 1]"));
  EXPECT_EQ(difference(parameters_of(all[0]), parameters_of(one)), "");
  EXPECT_GT(distance(all[1], among(one, all[1])), 1e-5);
}

/// How many updates each seat has recorded.
class Updates final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto train = record.as<records::Train>())
      ++of[{train->block, train->replica.value_or(0)}];
  }
  std::map<std::pair<int, int>, int> of;
};

TEST(UnevenReplicas, RecordTheirUpdatesByBlockAndReplica) {
  const auto sink = std::make_shared<Updates>();
  Training(small_experiment(std::string(kTwo) + turns(6) + "log_every = 1\n" +
                            replicas("[2, 1]")),
           sink)
      .train();
  // A block of one replica has no number of it.
  const std::map<std::pair<int, int>, int> expected = {
      {{1, 1}, 6}, {{1, 2}, 6}, {{2, 0}, 6}};
  EXPECT_EQ(sink->of, expected);
}

class Evaluations final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto evaluation = record.as<records::Evaluation>())
      losses.push_back(evaluation->loss);
  }
  std::vector<double> losses;
};

std::vector<double> evaluated(const std::string& lines) {
  const auto sink = std::make_shared<Evaluations>();
  Training(small_experiment(lines), sink).train();
  return sink->losses;
}

// By the first replica of each block, from one to the next.
TEST(UnevenReplicas, EvaluateAsThoseOfOneNumber) {
  const std::string net =
      std::string(kThree) + turns(6) + "evaluate_every = 0.1\n";
  const std::vector<double> even = evaluated(net + replicas("2"));
  ASSERT_GE(even.size(), 2U);
  EXPECT_NE(even.front(), even.back());
  for (const char* count : {"[2, 1, 2]", "[1, 2, 1]"})
    EXPECT_EQ(evaluated(net + replicas(count)), even) << count;
}

TEST(UnevenReplicas, CountTheTurnsOfTheMostReplicas) {
  // 40 batches.
  const Experiment experiment = small_experiment(
      std::string(kThree) + "turns = 0\nepochs = 1\n" + replicas("[4, 2, 1]"));
  EXPECT_EQ(experiment.turns_per_epoch, 10);
  EXPECT_EQ(experiment.seats(), 7);
}

}  // namespace sluice::uneven_runs_test
