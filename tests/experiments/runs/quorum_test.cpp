// Replicas that wait at a centre for some of the others: backup workers, and
// averages with a quorum.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "tests/experiments/helpers/recorded.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::quorum_test {

using free_replicas::costs_with;
using free_replicas::recorded;
using free_replicas::Recording;
using free_replicas::repeated;
using replica_runs::trained;

constexpr const char* kFree = "schedule = 'free'\n";
constexpr int kTurns = 12;

std::string config(const std::string& replicas, int blocks = 1) {
  return fmt::format(
      "batch_size = 8\nturns = {}\nmodel = {{hidden = [24, 20], dropout = "
      "0.2, batch_norm = true}}\nblocks = {}\n"
      "optimizer = {{name = 'sgd', lr = 0.05, momentum = 0.5}}\n"
      "replicas = {{count = 3, deal = 'shares', policy = {}}}\n",
      kTurns, blocks == 1 ? "1" : "['0', '1-']", replicas);
}

struct Case {
  const char* name = "";
  const char* policy = "";  ///< in lockstep
  const char* all = "";     ///< what makes it wait for all
  const char* some = "";    ///< for two of three
  int blocks = 1;
};

void PrintTo(const Case& of, std::ostream* out) {
  *out << of.name;
}

class Waiting : public testing::TestWithParam<Case> {};

constexpr const char* kOuter =
    "'average', every = 2, outer_lr = 0.7, outer_momentum = 0.9, "
    "outer_nesterov = true";

INSTANTIATE_TEST_SUITE_P(
    Policies, Waiting,
    testing::Values(Case{"Gradients", "'all_reduce'", ", backup = 0",
                         ", backup = 1"},
                    Case{"Averages", "'average', every = 3", ", quorum = 3",
                         ", quorum = 2"},
                    Case{"OuterSteps", kOuter, "", ", quorum = 2", 2}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(Waiting, ForAllHasTheBitsOfLockstep) {
  const auto& [name, policy, all, some, blocks] = GetParam();
  const Costs costs = costs_with(blocks, {1, 1.2, 3.3}, 0.8);
  const auto lockstep = trained(config(policy, blocks));
  const auto waiting =
      trained(config(std::string(policy) + all, blocks) + kFree, costs);
  for (std::size_t r = 0; r < waiting.size(); ++r)
    EXPECT_EQ(difference(waiting[r], lockstep[r]), "") << r;
  const auto others =
      trained(config(std::string(policy) + some, blocks) + kFree, costs);
  EXPECT_GT(distance(others[0], lockstep[0]), 1e-4);
}

TEST_P(Waiting, ForSomeIsRepeatedFromItsRecord) {
  const auto& [name, policy, all, some, blocks] = GetParam();
  const std::string lines = config(std::string(policy) + some, blocks) + kFree;
  const Recording run = recorded(lines, costs_with(blocks, {1, 2.7, 1.3}, 0.8));
  const auto again = repeated(lines, run.actions);
  for (std::size_t r = 0; r < again.size(); ++r)
    EXPECT_EQ(difference(again[r], run.weights[r]), "") << r;
}

std::int64_t count_of(const Recording& run, int seat, Op op) {
  return std::count_if(by_block(run.actions, seat).begin(),
                       by_block(run.actions, seat).end(),
                       [&](const Action& action) { return action.op == op; });
}

// A1: applied and dropped gradients are those that were made, and exactly N
// enter each update.
TEST(Backup, DropsTheGradientsOfASlowReplicaAndLeavesTurnsOut) {
  const Costs slow = costs_with(1, {1, 1, 4});
  const Recording run =
      recorded(config("'all_reduce', backup = 1") + kFree, slow);
  ASSERT_EQ(run.blocks.size(), 3U);
  std::int64_t made = 0;
  std::int64_t dropped = 0;
  for (int seat = 1; seat <= 3; ++seat) {
    const records::Block& block = by_block(run.blocks, seat);
    const std::int64_t forwards = count_of(run, seat, Op::forward);
    EXPECT_EQ(forwards + block.turns_left_out.value_or(-1), kTurns) << seat;
    made += forwards;
    dropped += block.late_gradients.value_or(-1);
    EXPECT_EQ(forwards - block.late_gradients.value_or(-1) +
                  block.merges_without_it.value_or(-1),
              kTurns)
        << "each step has its gradient or hasn't";
  }
  EXPECT_EQ(made - dropped, 2 * kTurns);
  EXPECT_GE(run.blocks[2].late_gradients, 2);
  EXPECT_GE(run.blocks[2].turns_left_out, 6);
  EXPECT_EQ(run.blocks[0].late_gradients, 0);
  const Recording waiting = recorded(config("'all_reduce'") + kFree, slow);
  EXPECT_LT(run.seconds, 0.5 * waiting.seconds);
  EXPECT_EQ(waiting.blocks[2].late_gradients, 0);
  EXPECT_EQ(waiting.blocks[0].merges_without_it, 0);
}

TEST(Backup, ThatAreAlikeLeaveNoStepWithFewerGradients) {
  const Recording run = recorded(config("'all_reduce', backup = 2") + kFree,
                                 costs_with(1, {1, 1.1, 1.2}, 0.5));
  std::int64_t made = 0;
  for (int seat = 1; seat <= 3; ++seat)
    made += count_of(run, seat, Op::forward) -
            by_block(run.blocks, seat).late_gradients.value_or(0);
  EXPECT_EQ(made, kTurns) << "one to a step";
}

// A1: who is dropped decides nothing where all have the same batch.
TEST(Backup, ReplicasOfTheSameBatchesMakeTheStepsOfOneWhicheverIsDropped) {
  const auto lines = [](int samples, const char* more) {
    return fmt::format(
        "batch_size = 1\nturns = {}\ndata = {{train = {}, test = 16}}\n"
        "model = {{hidden = [24, 20]}}\nblocks = 1\n"
        "optimizer = {{name = 'sgd', lr = 0.05, momentum = 0.5}}\n{}",
        kTurns, samples, more);
  };
  const auto where_one_is_slow = [&](int samples,
                                     const std::vector<double>& slowness) {
    return trained(lines(samples,
                         "replicas = {count = 3, policy = 'all_reduce', "
                         "backup = 1}\n") +
                       kFree,
                   costs_with(1, slowness))[0];
  };
  const auto one = trained(lines(1, ""))[0];
  EXPECT_EQ(difference(where_one_is_slow(1, {1, 1, 4}), one), "");
  EXPECT_EQ(difference(where_one_is_slow(1, {4, 1, 1}), one), "");
  EXPECT_GT(distance(where_one_is_slow(3, {1, 1, 4}),
                     where_one_is_slow(3, {4, 1, 1})),
            1e-4);
}

TEST(Quorum, GoesOnWithoutASlowReplicaAndTakesItLater) {
  const Costs slow = costs_with(1, {1, 1, 5});
  const std::string policy = "'average', every = 2, quorum = 2";
  const Recording run = recorded(config(policy) + kFree, slow);
  EXPECT_GT(run.blocks[2].merges_without_it, 0);
  for (const records::Block& block : run.blocks) {
    EXPECT_EQ(block.late_gradients, 0);
    EXPECT_EQ(block.turns_left_out, 0);
  }
  const std::vector<std::int64_t> pushes = run.places(3);
  EXPECT_EQ(pushes.size(), 6U) << "all of its share";
  EXPECT_GE(pushes.front(), 5) << "after two of each other one";
}

/// As long as the others need for two updates of the slow one.
TEST(Quorum, WaitsForMoreWithinItsGrace) {
  const Costs slow = costs_with(1, {1, 1, 2});
  const auto run = [&](double grace) {
    return recorded(
        config(fmt::format("'average', every = 2, quorum = 2, grace = {:.1f}",
                           grace)) +
            kFree,
        slow);
  };
  // Replica 3 needs 12 s, the others 6.
  EXPECT_GT(run(5).blocks[2].merges_without_it, 0);
  const Recording patient = run(7);
  EXPECT_EQ(patient.blocks[2].merges_without_it, 0);
  const auto lockstep = trained(config("'average', every = 2"));
  EXPECT_EQ(difference(patient.weights[0], lockstep[0]), "");
  EXPECT_GT(distance(run(5).weights[0], lockstep[0]), 1e-4);
}

/// The third replica takes so many times as long; a grace that follows the
/// arrivals waits for it where that is a little more.
TEST(Quorum, WaitsForMoreAsLongAsMostTake) {
  const auto without = [&](double slow) {
    return recorded(config("'average', every = 2, quorum = 2, grace = 'auto'") +
                        kFree,
                    costs_with(1, {1, 1, slow}))
        .blocks[2]
        .merges_without_it;
  };
  EXPECT_EQ(without(1.1), 0);
  EXPECT_GT(without(4), 0);
}

TEST(Quorum, WithAGraceIsRepeatedFromItsRecord) {
  for (const char* grace : {"2.0", "'auto'"}) {
    const std::string lines =
        config(
            fmt::format("'average', every = 2, quorum = 2, grace = {}", grace),
            2) +
        kFree;
    const Recording run = recorded(lines, costs_with(2, {1, 1.4, 2.1}, 0.8));
    const auto again = repeated(lines, run.actions);
    for (std::size_t r = 0; r < again.size(); ++r)
      EXPECT_EQ(difference(again[r], run.weights[r]), "") << r;
  }
}

}  // namespace sluice::quorum_test
