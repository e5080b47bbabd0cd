// Replicas in a loop of one's own have the bits of `sluice run`, by each
// policy.
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/runs/run.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/api/replica_network.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replica_equality_test {

using namespace replica_network;

constexpr Rules kRules[] = {
    {"all_reduce", "count = 2"},
    {"shards", "count = 3, shard = true"},
    {"compressed", "count = 2, compress = 'top_k', ratio = 0.2"},
    {"uneven", "count = [4, 1]"},
    {"uneven_above", "count = [2, 4]"},
    {"average", "count = 3, policy = 'average', every = 2"},
    {"diloco",
     "count = 2, policy = 'average', every = 4, outer_lr = 0.7, "
     "outer_momentum = 0.9, outer_nesterov = true"},
    {"streaming_diloco",
     "count = 2, policy = 'average', every = 4, overlap = 2, mixing = 0.5, "
     "stagger = true, outer_lr = 0.7, outer_momentum = 0.9"},
    {"elastic", "count = 2, policy = 'elastic', every = 2, beta = 0.9"},
    {"gossip", "count = 4, policy = 'gossip', graph = 'ring'"},
    {"push_sum",
     "count = 4, policy = 'gossip', graph = 'random', mix = 'after', push_sum "
     "= true"},
    {"neighbours", "count = 3, policy = 'neighbours', graph = 'ring'"},
    {"adoption",
     "count = 4, policy = 'neighbours', graph = 'ring', adopt_every = 0.2", "",
     "turns_per_epoch = 10"},
    {"server", "count = 3, policy = 'server'"},
    {"movements", "count = 2, policy = 'server', push = 'movement', every = 3"},
    {"delays", "count = 2, policy = 'average', every = 2",
     "boundary = {policy = 'delayed_gradient'}"},
    {"synthesizers", "count = 2", "boundary = {policy = 'synthetic_gradient'}"},
    {"rate_by_epochs", "count = 4", "", "turns_per_epoch = 10",
     ", schedule = {name = 'step', milestones = [0.5]}"}};

/// Checks a network's weights, and those of each replica, against the last
/// checkpoint of `sluice run`.
void expect_bits_of_run(const char* engine, const Rules& rules) {
  const Experiment experiment = experiment_of(rules);
  const Folder folder;
  StopSignals signals;
  run(experiment, {.folder = folder.path() + "/run", .quiet = true}, signals);
  const std::string of_run =
      checkpoint_folder(folder.path() + "/run/checkpoints", kTurns);

  Network net(options_of(experiment, rules, engine));
  EXPECT_EQ(net.replicas(), experiment.replicas.count);
  train_on(experiment, net, kTurns);
  net.drain();
  EXPECT_EQ(difference(net.weights(), load_weights(of_run)), "");
  const std::string saved = net.save(folder.path() + "/net");
  for (int replica = 1; replica <= net.replicas(); ++replica)
    EXPECT_EQ(difference(load_own_weights(saved, replica),
                         load_own_weights(of_run, replica)),
              "")
        << "replica " << replica;
}

class ReplicaEquality
    : public testing::TestWithParam<std::tuple<const char*, Rules>> {};

TEST_P(ReplicaEquality, StepsHaveTheBitsOfARun) {
  const auto& [engine, rules] = GetParam();
  expect_bits_of_run(engine, rules);
}

INSTANTIATE_TEST_SUITE_P(Policies, ReplicaEquality,
                         testing::Combine(testing::Values("virtual", "threads"),
                                          testing::ValuesIn(kRules)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param),
                                              std::get<1>(info.param).name);
                         });

TEST(ReplicaNetworks, EachPolicyEndsWithWeightsOfItsOwn) {
  std::vector<NamedTensors> all;
  for (const Rules& rules : kRules) {
    const Experiment experiment = experiment_of(rules);
    Network net(options_of(experiment, rules, "virtual"));
    train_on(experiment, net, kTurns);
    net.drain();
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_NE(difference(all[i], net.weights()), "")
          << kRules[i].name << " and " << rules.name;
    all.push_back(net.weights());
  }
}

/// In virtual time alone it is said who reads and writes what they share when.
TEST(ReplicaNetworks, SharedWeightsHaveTheBitsOfARun) {
  expect_bits_of_run("virtual", {"shared", "count = 2, policy = 'shared'"});
}

}  // namespace sluice::replica_equality_test
