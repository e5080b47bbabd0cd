// Replicas that sum gradients count their batches by samples: a turn of theirs
// is that of one batch of all its samples, also where the last one of an epoch
// is short. And replicas of equal weights agree on these.
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::samples_of_replicas_test {

/// Epochs of 37 samples: batches of 16, 16 and 5.
std::string lines_of(std::int64_t batch_size, const std::string& replicas,
                     const std::string& more, double rate = 0.25,
                     std::int64_t turns = 6) {
  return fmt::format(
      "turns = {}\nbatch_size = {}\ndata = {{train = 37, test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = ['0', '1-']\n"
      "optimizer = {{name = 'sgd', lr = {}}}\nreplicas = {{{}}}\n{}",
      turns, batch_size, rate, replicas, more);
}

NamedTensors trained(const std::string& lines) {
  Training run(small_experiment(lines));
  run.train();
  return copies_of(run.weights());
}

struct Case {
  std::string name;
  std::string replicas;
  std::string more;
};

class SamplesOfReplicas : public testing::TestWithParam<Case> {};

TEST_P(SamplesOfReplicas, CountAlikeWhateverTheirBatch) {
  const Case& of = GetParam();
  const NamedTensors found = trained(lines_of(16, of.replicas, of.more));
  // One batch of all samples of the epoch, which a turn of three replicas has.
  EXPECT_LT(distance(found, trained(lines_of(37, "count = 1", of.more))), 2e-6);
  // Where each batch counts a third, as turns of an update do.
  const NamedTensors by_turns = trained(lines_of(
      16, "count = 1", of.more + "accumulate = {batches = 3, rule = 'mean'}\n",
      0.25, 18));
  EXPECT_GT(distance(found, by_turns), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Methods, SamplesOfReplicas,
    testing::Values(
        Case{"Backprop", "count = 3", "boundary = {policy = 'backprop'}\n"},
        Case{"LocalLoss", "count = 3",
             "boundary = {policy = 'local_loss', head = {name = 'linear'}}\n"},
        Case{"Shards", "count = 3, shard = true",
             "boundary = {policy = 'backprop'}\n"},
        Case{"AList", "count = [3, 1]", "boundary = {policy = 'backprop'}\n"}),
    [](const auto& info) { return info.param.name; });

class EqualReplicas : public testing::TestWithParam<Case> {};

/// A rate of 0 leaves all replicas where they begin, whatever they exchange.
TEST_P(EqualReplicas, KeepTheBitsOfTheirWeights) {
  for (const int count : {3, 5, 6}) {
    const std::string lines =
        lines_of(4, fmt::format("count = {}, {}", count, GetParam().replicas),
                 "boundary = {policy = 'backprop'}\n", 0);
    Training run(small_experiment(lines));
    const NamedTensors before = copies_of(run.weights());
    run.train();
    for (int replica = 1; replica <= count; ++replica)
      EXPECT_EQ(difference(run.weights(replica), before), "")
          << replica << " of " << count;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, EqualReplicas,
    testing::Values(
        Case{"Average", "policy = 'average', every = 1", ""},
        Case{"DiLoCo",
             "policy = 'average', every = 2, outer_lr = 0.7, outer_momentum = "
             "0.9, outer_nesterov = true",
             ""},
        Case{"Elastic", "policy = 'elastic', every = 1", ""},
        Case{"ElasticOneByOne", "policy = 'elastic', one_by_one = true", ""},
        Case{"GossipOnARing", "policy = 'gossip'", ""},
        Case{"GossipAfterUpdates", "policy = 'gossip', mix = 'after'", ""},
        Case{"PushByHops",
             "policy = 'gossip', graph = 'hops', mix = 'after', push_sum = "
             "true",
             ""},
        Case{"Movements", "policy = 'server', push = 'movement'", ""}),
    [](const auto& info) { return info.param.name; });

}  // namespace sluice::samples_of_replicas_test
