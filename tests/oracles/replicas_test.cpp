// R replicas of K blocks must end with the weights of R networks of LibTorch's
// own modules in one plain loop, which exchange what the papers say: no seats,
// no messages, no schedule. Labels are those of the specification (parallel,
// sections A1-A4, A5, A8-A11, A13, A14, A18, A19, A23, B).
#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"
#include "tests/oracles/meetings.h"
#include "tests/oracles/plain_replicas.h"

namespace sluice::replica_oracle_test {

using plain_replicas::all_reduce;
using plain_replicas::alone;
using plain_replicas::average;
using plain_replicas::both_beside;
using plain_replicas::delayed_nesterov;
using plain_replicas::drawn_pair;
using plain_replicas::elastic;
using plain_replicas::kBatchSize;
using plain_replicas::kMomentum;
using plain_replicas::kRate;
using plain_replicas::kTurns;
using plain_replicas::looking_ahead;
using plain_replicas::MakeMeeting;
using plain_replicas::Method;
using plain_replicas::mixing;
using plain_replicas::movements;
using plain_replicas::neighbours;
using plain_replicas::one_behind;
using plain_replicas::one_by_one;
using plain_replicas::outer_sgd;
using plain_replicas::paired;
using plain_replicas::PlainReplicas;
using plain_replicas::push;
using plain_replicas::server;
using plain_replicas::sparse;
using plain_replicas::Stale;
using plain_replicas::streaming;

constexpr double kApart = 1e-3;  // results of which none is the other's

struct Policy {
  std::string name;
  std::string options;
  MakeMeeting make;
  /// How far from the oracle's the weights may end; 0: the same bits. Where it
  /// isn't 0, the equations are written in another order than Sluice computes
  /// them in: the rounding of every exchange grows over the turns, to 3e-7.
  double tolerance = 0;
  std::string optimizer = {};  ///< more keys of it
};

void PrintTo(const Policy& policy, std::ostream* out) {
  *out << policy.name;
}

/// An epoch is four batches of 16 and one of 10, which the replicas get in
/// turns that differ; cut into micro-batches, that one makes 3 of 4, 4 and 2.
std::string lines_of(int blocks, const Method& method, const Policy& policy) {
  return fmt::format(
      "turns = {}\nbatch_size = {}\ndata = {{train = 74, test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = {}\n"
      "optimizer = {{name = 'sgd', lr = {}, momentum = {}{}}}\n{}",
      kTurns, kBatchSize, blocks == 1 ? "1" : "['0', '1-']", kRate, kMomentum,
      policy.optimizer, method.lines);
}

using Case = std::tuple<int, int, Method, Policy>;

class ReplicaOracle : public testing::TestWithParam<Case> {
 protected:
  /// The run, with so many replicas.
  Training training(int count) const {
    std::string lines = lines_of(blocks, method, policy);
    if (count > 1)
      lines += fmt::format("replicas = {{count = {}, policy = {}}}\n", count,
                           policy.options);
    return Training(small_experiment(lines));
  }

  Training trained(int count) const {
    Training run = training(count);
    run.train();
    return run;
  }

  PlainReplicas trained_oracle(const MakeMeeting& make) const {
    PlainReplicas oracle(training(1), method, replicas, make);
    oracle.train();
    return oracle;
  }

  const int replicas = std::get<0>(GetParam());
  const int blocks = std::get<1>(GetParam());
  const Method method = std::get<2>(GetParam());
  const Policy policy = std::get<3>(GetParam());
};

TEST_P(ReplicaOracle, WeightsOfAllReplicasAreThoseOfThePlainLoop) {
  const PlainReplicas oracle = trained_oracle(policy.make);
  const Training run = trained(replicas);
  for (int replica = 1; replica <= replicas; ++replica) {
    const NamedTensors weights = run.weights(replica);
    const NamedTensors expected = oracle.weights(replica);
    ASSERT_EQ(weights.size(), expected.size());
    if (policy.tolerance == 0) {
      EXPECT_EQ(difference(weights, expected), "") << "replica " << replica;
    } else {
      EXPECT_LT(distance(weights, expected), policy.tolerance)
          << "replica " << replica;
    }
  }
}

/// The inequality beside that equality: what a run would come to whose
/// replicas don't exchange, or get the batches of a run of one.
class ReplicasApart : public ReplicaOracle {};

TEST_P(ReplicasApart, EndElsewhereThanThoseThatNeverMeetAndThanOneAlone) {
  const PlainReplicas never_meet = trained_oracle(alone());
  const Training one = trained(1);
  const Training run = trained(replicas);
  for (int replica = 1; replica <= replicas; ++replica) {
    const NamedTensors weights = run.weights(replica);
    EXPECT_GT(distance(weights, never_meet.weights(replica)), kApart)
        << "replica " << replica;
    EXPECT_GT(distance(weights, one.weights()), kApart)
        << "replica " << replica;
  }
}

const Method kBackprop = {.name = "Backprop",
                          .lines = "boundary = {policy = 'backprop'}\n"};
const Method kPipeline = {
    .name = "OneForwardOneBackward",
    .lines =
        "boundary = {policy = 'backprop'}\n"
        "pipeline = {order = '1f1b', micro_batches = 4}\n",
    .micro_batches = 4};
const Method kDelayed = {
    .name = "DelayedGradient",
    .lines = "boundary = {policy = 'delayed_gradient', weights = 'stash'}\n",
    .is_delayed = true};
const Method kUndrained = {.name = "DelayedGradientUndrained",
                           .lines = kDelayed.lines + "drain = false\n",
                           .is_delayed = true,
                           .drains = false};
const Method kLocal = {.name = "LocalLoss",
                       .lines =
                           "boundary = {policy = 'local_loss', head = "
                           "{name = 'linear'}}\n",
                       .is_local = true};

const Policy kAllReduce = {"AllReduce", "'all_reduce'", all_reduce()};
const Policy kOfWeights[] = {
    {"AverageOf3", "'average', every = 3", average(3)},
    // 30 turns end two updates after an average, at which all were the same.
    {"AverageOf4", "'average', every = 4", average(4)},
    {"OuterNesterov",
     "'average', every = 3, outer_lr = 0.7, outer_momentum = 0.9, "
     "outer_nesterov = true",
     outer_sgd(3), 1e-6},
    {"Streaming",
     "'average', every = 4, overlap = 2, mixing = 0.25, outer_lr = 0.7, "
     "outer_momentum = 0.9",
     streaming({.every = 4, .overlap = 2, .mixing = 0.25}), 1e-6},
    // A power of two as the outer rate; the same elements must be the largest.
    {"Sparse",
     "'average', every = 3, compress = 'top_k', ratio = 0.1, chunk = 50, "
     "error_decay = 0.75, outer_lr = 0.5",
     sparse(
         {.every = 3, .ratio = 0.1, .chunk = 50, .decay = 0.75, .rate = 0.5})},
    {"ElasticOf1", "'elastic', every = 1, beta = 0.9", elastic(1), 1e-6},
    {"ElasticOf2", "'elastic', every = 2, beta = 0.9", elastic(2), 1e-6}};

const Policy kOfPeers[] = {
    {"GossipOnARing", "'gossip'", mixing(both_beside, true)},
    {"GossipAfterUpdates", "'gossip', mix = 'after'",
     mixing(both_beside, false)},
    {"GossipByHops", "'gossip', graph = 'hops', mix = 'after'",
     mixing(one_behind, false)},
    {"PushByHops", "'gossip', graph = 'hops', mix = 'after', push_sum = true",
     mixing(one_behind, false)},
    {"Neighbours", "'neighbours'", neighbours()}};
const Policy kOfServers[] = {
    {"ElasticOneByOne", "'elastic', one_by_one = true, beta = 0.9",
     one_by_one()},
    {"Movements", "'server', push = 'movement', every = 2, per_update = true",
     movements(2)},
    {"Server", "'server'", server(Stale::as_it_is)}};
const Policy kCompensating = {
    "DelayCompensation", "'server'", server(Stale::compensated), 0,
    ", correction = {name = 'delay_compensation', strength = 0.5}"};
// Three replicas halve the rate, which stays a power of two.
const Policy kSlower = {"StalenessAware", "'server'", server(Stale::slower), 0,
                        ", correction = {name = 'staleness_aware'}"};
const Policy kPairs = {"GossipOfPairs", "'gossip', pairs = true",
                       mixing(drawn_pair, true)};
const Policy kOuterPairs = {
    "OuterStepsInPairs",
    "'gossip', graph = 'complete', pairs = true, mix = 'after', every = 3, "
    "outer_lr = 0.5, outer_momentum = 0.3, outer_pull = 0.5",
    paired({.every = 3, .rate = 0.5, .momentum = 0.3, .pull = 0.25}), 1e-6};
// The published code has one number for rate and pull.
const Policy kNoLoCo = {
    "NoLoCo",
    "'gossip', graph = 'complete', pairs = true, mix = 'after', every = 3, "
    "outer_lr = 0.7, outer_momentum = 0.3",
    paired({.every = 3, .rate = 0.7, .momentum = 0.3, .pull = 0.7}), 1e-6};
const Policy kNesterovServer = {
    "DelayedNesterov",
    "'server', push = 'movement', every = 2, outer_lr = 0.7, outer_momentum = "
    "0.6, outer_every = 4",
    delayed_nesterov(2, 0.7, 0.6, 4), 1e-6};
const Policy kLookAhead = {"Eamsgd", "'elastic', one_by_one = true, beta = 0.9",
                           looking_ahead(), 1e-6, ", look_ahead = true"};
const Policy kPush = {
    "PushToOneThatIsDrawn",
    "'gossip', graph = 'random', mix = 'after', push_sum = true", push(), 1e-6};

/// "AverageOf3_Backprop_Within1e6", and the numbers of replicas and blocks.
std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& [replicas, blocks, method, policy] = info.param;
  return fmt::format("{}_{}_{}_R{}K{}", policy.name, method.name,
                     policy.tolerance == 0 ? "SameBits" : "Within1e6", replicas,
                     blocks);
}

using testing::Combine;
using testing::Values;
using testing::ValuesIn;

INSTANTIATE_TEST_SUITE_P(Gradients, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop, kPipeline, kDelayed, kLocal),
                                 Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GradientsInFlight, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(2), Values(kUndrained),
                                 Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Weights, ReplicaOracle,
                         Combine(Values(2, 3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfWeights)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(WeightsByLateUpdates, ReplicaOracle,
                         Combine(Values(2), Values(2),
                                 Values(kDelayed, kUndrained),
                                 ValuesIn(kOfWeights)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Peers, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), ValuesIn(kOfPeers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(PeersByLateUpdates, ReplicaOracle,
                         Combine(Values(3), Values(2),
                                 Values(kDelayed, kUndrained),
                                 ValuesIn(kOfPeers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Servers, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), ValuesIn(kOfServers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersOfLateGradients, ReplicaOracle,
                         Combine(Values(3), Values(2),
                                 Values(kDelayed, kUndrained),
                                 ValuesIn(kOfServers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersThatCompensate, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), Values(kCompensating)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersThatSlowDown, ReplicaOracle,
                         Combine(Values(3), Values(1, 2), Values(kBackprop),
                                 Values(kSlower)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Pairs, ReplicaOracle,
                         Combine(Values(2, 4), Values(1, 2), Values(kBackprop),
                                 Values(kPairs)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(PairsOfAll, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop),
                                 Values(kOuterPairs, kNoLoCo)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersThatStep, ReplicaOracle,
                         Combine(Values(2, 3), Values(1, 2), Values(kBackprop),
                                 Values(kNesterovServer)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersThatStepByLateUpdates, ReplicaOracle,
                         Combine(Values(3), Values(2),
                                 Values(kDelayed, kUndrained),
                                 Values(kNesterovServer, kNoLoCo)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(LooksAhead, ReplicaOracle,
                         Combine(Values(2, 3), Values(1, 2),
                                 Values(kBackprop, kPipeline),
                                 Values(kLookAhead)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Pushes, ReplicaOracle,
                         Combine(Values(3, 4), Values(1, 2), Values(kBackprop),
                                 Values(kPush)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Servers, ReplicasApart,
                         Combine(Values(3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfServers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Peers, ReplicasApart,
                         Combine(Values(3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfPeers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Gradients, ReplicasApart,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GradientsOfMethods, ReplicasApart,
                         Combine(Values(2), Values(2),
                                 Values(kPipeline, kDelayed, kLocal),
                                 Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Weights, ReplicasApart,
                         Combine(Values(2, 3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfWeights)),
                         name_of);

}  // namespace sluice::replica_oracle_test
