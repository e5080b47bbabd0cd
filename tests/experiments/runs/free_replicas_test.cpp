// Replicas with clocks of their own, which a centre serves as they come.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/recorded.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_replicas_test {

using free_replicas::costs_with;
using free_replicas::recorded;
using free_replicas::Recording;
using free_replicas::repeated;
using replica_runs::trained;
using testing::Each;

constexpr const char* kFree = "schedule = 'free'\n";
constexpr const char* kSgd =
    "optimizer = {name = 'sgd', lr = 0.05, momentum = 0.5}\n";

std::string net(int blocks, int turns = 12) {
  return fmt::format(
      "batch_size = 8\nturns = {}\nmodel = {{hidden = [24, 20], dropout = "
      "0.2, batch_norm = true}}\nblocks = {}\n",
      turns, blocks == 1 ? "1" : "['0', '1-']");
}

std::string replicas(int count, const std::string& policy = "'server'") {
  return fmt::format(
      "replicas = {{count = {}, deal = 'shares', policy = {}}}\n", count,
      policy);
}

constexpr std::pair<const char*, const char*> kPolicies[] = {
    {"Server", "'server'"},
    {"Movements", "'server', push = 'movement', every = 3"},
    {"Agn", "'server', push = 'movement', every = 2, per_update = true"},
    {"Elastic", "'elastic', one_by_one = true, every = 2"}};

class FreeReplicas : public testing::TestWithParam<
                         std::tuple<int, std::pair<const char*, const char*>>> {
 protected:
  int blocks() const { return std::get<0>(GetParam()); }
  std::string lines() const {
    return net(blocks()) + kSgd + replicas(3, std::get<1>(GetParam()).second);
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, FreeReplicas,
                         testing::Combine(testing::Values(1, 2),
                                          testing::ValuesIn(kPolicies)),
                         [](const auto& info) {
                           return fmt::format("{}_K{}",
                                              std::get<1>(info.param).first,
                                              std::get<0>(info.param));
                         });

TEST_P(FreeReplicas, GoRoundRobinWhenNothingTakesTime) {
  const auto lockstep = trained(lines());
  const auto free = trained(lines() + kFree);
  for (std::size_t r = 0; r < free.size(); ++r)
    EXPECT_EQ(difference(free[r], lockstep[r]), "") << r;
}

TEST_P(FreeReplicas, GoElsewhereWhenOneIsSlow) {
  const auto lockstep = trained(lines());
  const auto free = trained(lines() + kFree, costs_with(blocks(), {1, 3.3, 1}));
  EXPECT_GT(distance(free[0], lockstep[0]), 1e-4);
}

TEST_P(FreeReplicas, AreRepeatedFromTheirRecord) {
  const std::string config = lines() + kFree;
  const Recording run =
      recorded(config, costs_with(blocks(), {1, 2.7, 1.3}, 0.8));
  const auto again = repeated(config, run.actions);
  for (std::size_t r = 0; r < again.size(); ++r)
    EXPECT_EQ(difference(again[r], run.weights[r]), "") << r;
}

TEST(FreePairs, AreRepeatedFromTheirRecordAndMeetOthersThanInLockstep) {
  for (const char* mix : {"before", "after"}) {
    const std::string lines =
        net(2) + kSgd +
        replicas(4, fmt::format("'gossip', pairs = true, mix = '{}'", mix));
    const Recording run =
        recorded(lines + kFree, costs_with(2, {1, 2.7, 1.3, 1}, 0.8));
    EXPECT_EQ(
        difference(repeated(lines + kFree, run.actions)[1], run.weights[1]),
        "");
    EXPECT_GT(distance(run.weights[1], trained(lines)[1]), 1e-4);
  }
}

constexpr const char* kPartners = "'gossip', pairs = true, meet_at = 'partner'";

TEST(FreePartners, AreRepeatedFromTheirRecordAndDependOnTheClock) {
  for (const char* mix : {"before", "after"}) {
    const std::string lines =
        net(2) + kSgd +
        replicas(4, fmt::format("{}, mix = '{}'", kPartners, mix)) + kFree;
    const Recording run = recorded(lines, costs_with(2, {1, 2.7, 1.3, 1}, 0.8));
    const auto again = repeated(lines, run.actions);
    for (std::size_t r = 0; r < again.size(); ++r)
      EXPECT_EQ(difference(again[r], run.weights[r]), "") << mix << r;
    const Recording other =
        recorded(lines, costs_with(2, {3.1, 1, 1, 1.3}, 0.8));
    EXPECT_GT(distance(run.weights[1], other.weights[1]), 1e-4) << mix;
  }
}

/// All have the first weights, whose mean is they, as long as none steps.
TEST(FreePartners, StayWhereTheyBeginAtARateOfNoughtAndMoveApartAboveIt) {
  // BatchNorm's statistics are each replica's own.
  const auto lines = [](double rate) {
    return fmt::format(
               "batch_size = 8\nturns = 12\nmodel = {{hidden = [24, 20]}}\n"
               "blocks = 1\noptimizer = {{name = 'sgd', lr = {}}}\n",
               rate) +
           replicas(4, kPartners) + kFree;
  };
  const Costs costs = costs_with(1, {1, 2.7, 1.3, 1}, 0.8);
  const auto still = trained(lines(0), costs);
  const auto moved = trained(lines(0.05), costs);
  for (std::size_t r = 1; r < 4; ++r) {
    EXPECT_EQ(difference(still[r], still[0]), "") << r;
    EXPECT_GT(distance(moved[r], moved[0]), 1e-4) << r;
  }
}

TEST(FreeServer, ThatWaitsForGradientsIsRepeatedFromItsRecord) {
  const std::string config =
      net(1) + kSgd + replicas(4, "'server', softsync = 2") + kFree;
  const Recording run = recorded(config, costs_with(1, {1, 2.7, 1.3, 1}, 0.8));
  EXPECT_EQ(difference(repeated(config, run.actions)[1], run.weights[1]), "");
}

TEST(FreeServer, IsOtherReplicasUpdatesAheadOfThoseThatAreAlike) {
  // Until an evaluation, which the first alone makes.
  const Recording run = recorded(net(1, 10) + kSgd + replicas(4) + kFree,
                                 costs_with(1, {1, 1, 1, 1}));
  for (int seat = 1; seat <= 4; ++seat) {
    std::vector<std::int64_t> late = run.staleness(seat);
    ASSERT_EQ(late.size(), 10U);
    EXPECT_EQ(late.front(), seat - 1);
    late.erase(late.begin());
    EXPECT_THAT(late, Each(3));
  }
}

TEST(FreeServer, ServesASlowReplicaLessOften) {
  const Recording run =
      recorded(net(2) + kSgd + replicas(3) + kFree, costs_with(2, {1, 4, 1}));
  const auto among_first = [&](int seat) {
    const std::vector<std::int64_t> places = run.places(seat);
    return std::count_if(places.begin(), places.end(),
                         [](std::int64_t place) { return place <= 18; });
  };
  // Seats 1, 3 and 5 are block 1 of the replicas.
  EXPECT_GE(among_first(1), 7);
  EXPECT_GE(among_first(5), 7);
  EXPECT_LE(among_first(3), 3);
  EXPECT_EQ(among_first(1) + among_first(3) + among_first(5), 18);
  EXPECT_GE(run.staleness(3).at(1), 6) << "the others come four times each";
  EXPECT_LE(run.staleness(1).at(1), 2);
}

TEST(FreeServer, ServesOneAfterTheOtherInTheOrderOfArrival) {
  // The second comes while the first is served, the third after the second.
  Costs costs = costs_with(1, {1.2, 1.1, 1});
  for (BlockCosts& block : costs.blocks)
    block.seconds[Op::settle] = 10 / block.slowness;
  costs.exchange_link.latency = 0.25;
  Training training(small_experiment(net(1, 1) + kSgd + replicas(3) + kFree));
  std::map<std::int64_t, TimedAction> served;
  training.watch = [&](const TimedAction& timed) {
    if (timed.action.arrived > 0) served[timed.action.arrived] = timed;
  };
  training.train(costs);
  ASSERT_EQ(served.size(), 3U);
  double free_since = 3 + 0.25;  // a forward and a backward, and its way there
  for (const auto& [place, timed] : served) {
    EXPECT_EQ(timed.seat, 4 - place);
    EXPECT_NEAR(timed.start, free_since, 1e-9);
    EXPECT_NEAR(timed.end, free_since + 10 + 0.25, 1e-9);
    free_since += 10;
  }
}

TEST(FreeServer, TellsCorrectionsHowLateGradientsReallyAre) {
  const std::string config = net(1) + replicas(3) + kFree;
  const std::string plain = config + kSgd;
  const std::string corrected =
      config +
      "optimizer = {name = 'sgd', lr = 0.05, momentum = 0.5, correction = "
      "{name = 'staleness_aware'}}\n";
  const Costs costs = costs_with(1, {1, 5, 1});
  EXPECT_GT(distance(trained(corrected, costs)[0], trained(plain, costs)[0]),
            1e-4);
  // One alone is never late.
  const auto alone = [](std::string lines) {
    lines.replace(lines.find("count = 3"), 9, "count = 1");
    return trained(lines)[0];
  };
  EXPECT_EQ(difference(alone(corrected), alone(plain)), "");
}

TEST(FreeServer, FreeServerOfAsManyStepsAsGradientsDividesEachByItsStaleness) {
  const auto of = [](const std::string& policy, const std::string& correction) {
    return trained(net(1) + replicas(3, policy) + kFree +
                       "optimizer = {name = 'sgd', lr = 0.05" + correction +
                       "}\n",
                   costs_with(1, {1, 2.5, 1}));
  };
  const auto softsync = of("'server', softsync = 3", "");
  const auto corrected =
      of("'server'", ", correction = {name = 'staleness_aware'}");
  EXPECT_LT(distance(softsync[0], corrected[0]), 1e-5);
  EXPECT_GT(distance(of("'server', softsync = 1", "")[0], corrected[0]), 1e-3);
}

TEST(SlowReplica, SlowReplicaOfTheVirtualClockIsNamedByBlockAndReplica) {
  const auto seconds = [](const std::string& slow) {
    Training training(small_experiment(
        net(1) + kSgd + replicas(2) + kFree +
        "virtual = {forward = 1.0, backward = 2.0" + slow + "}\n"));
    return training.train(training.experiment.costs);
  };
  const double evaluation = seconds("") - 12 * 3;  // by replica 1
  EXPECT_GE(evaluation, 0);
  EXPECT_NEAR(seconds(", slow = ['1.2x3']"), 12 * 9 + evaluation, 1e-9);
  EXPECT_NEAR(seconds(", slow = ['1x2', '1.2x3']"), 12 * 18 + 2 * evaluation,
              1e-9);
}

}  // namespace sluice::free_replicas_test
