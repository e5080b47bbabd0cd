// Batches that go to the replica that asks first: each once, and work that
// follows speed.
#include "lib/schedules/replicas/dealer.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::dealer_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

ReplicaExchange served(ExchangedTensors what, std::int64_t every = 1) {
  return {.what = what, .every = every, .agrees = true, .served = true};
}

RunPlan plan_of(int replicas, const ReplicaExchange& exchange,
                Dealing dealing = Dealing::arrival,
                const std::vector<Traits>& boundaries = {}) {
  return with_replicas(make_free_plan(boundaries, 1, 3), replicas, exchange,
                       false, dealing);
}

/// Boundaries of back-propagation, of delayed gradients, and of a local loss.
const std::vector<Traits> kBoundaries[] = {
    {},
    {Traits{}},
    {Traits{.delay = 1}},
    {Traits{.cut = true, .from_above = false, .own = true},
     Traits{.delay = 1}}};

/// Replicas of which the last one is so many times as slow.
Costs costs_of(int replicas, double slowest, double jitter = 0,
               int blocks = 1) {
  Costs costs{.jitter = jitter, .seed = 3};
  for (int replica = 1; replica <= replicas; ++replica)
    for (int block = 1; block <= blocks; ++block)
      costs.blocks.push_back({.seconds = {{Op::forward, 1}, {Op::backward, 2}},
                              .slowness = replica == replicas ? slowest : 1});
  return costs;
}

std::vector<TimedAction> timeline_of(const RunPlan& plan, const Costs& costs,
                                     std::int64_t turns,
                                     bool checkpoint = false) {
  Grant grant;
  grant.end_turn = turns;
  grant.drain = true;
  grant.checkpoint = checkpoint;
  return simulate(plan, costs, capacities_of(plan, 2), grant);
}

std::vector<std::int64_t> batches_of(int seat,
                                     const std::vector<TimedAction>& timeline,
                                     Op op) {
  std::vector<std::int64_t> all;
  for (const TimedAction& timed : timeline)
    if (timed.action.op == op && (seat == 0 || timed.seat == seat))
      all.push_back(timed.action.batch);
  return all;
}

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Dealer, GivesEachBatchOnceInOrder) {
  Dealer dealer;
  EXPECT_FALSE(dealer.next());
  dealer.open(4, 7);
  EXPECT_EQ(dealer.deal(1, 7), 4);
  EXPECT_EQ(dealer.deal(2, 7), 5);
  EXPECT_EQ(dealer.deal(1, 6), std::nullopt) << "of a grant that ended before";
  EXPECT_EQ(dealer.deal(1, 7), 6);
  EXPECT_EQ(dealer.deal(2, 7), std::nullopt);
  dealer.open(4, 9);
  EXPECT_EQ(dealer.deal(2, 9), 7);
}

TEST(Dealer, DealsAgainWhatALostReplicaHad) {
  Dealer dealer;
  dealer.open(0, 10);
  for (const int replica : {1, 2, 2, 1, 2}) dealer.deal(replica, 10);
  dealer.took(2, 1);
  EXPECT_EQ(dealer.take_back(2), 2) << "2 and 4 were under way";
  EXPECT_EQ(dealer.take_back(2), 0) << "once";
  EXPECT_EQ(dealer.deal(1, 10), 2) << "before those that were never dealt";
  EXPECT_EQ(dealer.deal(1, 10), 4);
  EXPECT_EQ(dealer.deal(1, 10), 5);
}

TEST(DealByArrival, GivesEqualReplicasTheirShares) {
  for (const ReplicaExchange& exchange :
       {served(ExchangedTensors::gradients),
        served(ExchangedTensors::weights, 3)}) {
    const RunPlan plan = plan_of(3, exchange);
    const auto timeline = timeline_of(plan, costs_of(3, 1), 5);
    const auto shares =
        timeline_of(plan_of(3, exchange, Dealing::shares), costs_of(3, 1), 5);
    ASSERT_EQ(timeline.size(), shares.size());
    for (std::size_t i = 0; i < timeline.size(); ++i) {
      const Action& mine = timeline[i].action;
      const Action& its = shares[i].action;
      EXPECT_EQ(timeline[i].seat, shares[i].seat);
      EXPECT_EQ(timeline[i].start, shares[i].start);
      EXPECT_EQ(mine.op, its.op);
      EXPECT_EQ(mine.turn, its.turn);
      const int replica = timeline[i].seat;
      EXPECT_EQ(mine.batch, its.batch * 3 + replica - 1) << to_text(mine);
      const auto& cut = [&](const RunPlan& of) -> const MicroBatches& {
        return of.blocks[static_cast<std::size_t>(replica) - 1].micro_batches;
      };
      EXPECT_EQ(
          cut(plan).source_batch(mine.batch),
          cut(plan_of(3, exchange, Dealing::shares)).source_batch(its.batch));
    }
  }
}

TEST(DealByArrival, GivesAFastReplicaMore) {
  const auto timeline = timeline_of(
      plan_of(2, served(ExchangedTensors::gradients)), costs_of(2, 4), 5);
  EXPECT_EQ(batches_of(2, timeline, Op::forward).size(), 2U);
  EXPECT_EQ(batches_of(1, timeline, Op::forward).size(), 8U);
}

// R / (R - 1 + 1 / s) of the even time, but for the end of the run.
TEST(DealByArrival, TakesTheTimeOfWhatAllCanDoTogether) {
  constexpr int kReplicas = 8;
  constexpr std::int64_t kTurns = 200;
  const auto end_of = [&](double slowest, Dealing dealing) {
    double end = 0;
    for (const TimedAction& timed : timeline_of(
             plan_of(kReplicas, served(ExchangedTensors::gradients), dealing),
             costs_of(kReplicas, slowest), kTurns))
      end = std::max(end, timed.end);
    return end;
  };
  const double even = end_of(1, Dealing::arrival);
  EXPECT_EQ(even, 3 * kTurns);
  EXPECT_NEAR(end_of(4, Dealing::arrival) / even, 8 / 7.25, 0.02);
  EXPECT_NEAR(end_of(4, Dealing::shares) / even, 4, 0.01);
}

TEST(DealByArrival, ExchangesAfterSoManyUpdatesOfItsOwn) {
  const auto timeline = timeline_of(
      plan_of(2, served(ExchangedTensors::weights, 3)), costs_of(2, 2.5), 10);
  for (const int seat : {1, 2}) {
    std::int64_t updates = 0;
    for (const TimedAction& timed : timeline) {
      if (timed.seat != seat) continue;
      if (timed.action.op == Op::update) ++updates;
      if (timed.action.op == Op::exchange) {
        EXPECT_EQ(updates % 3, 0);
      }
    }
    EXPECT_EQ(updates, std::ssize(batches_of(seat, timeline, Op::forward)));
  }
}

int drawn_below(std::mt19937& random, int end) {
  return static_cast<int>(random() % static_cast<unsigned>(end));
}

TEST(DealByArrival, AppliesEachBatchOfTheRunOnceInRandomRuns) {
  std::mt19937 random(7);
  for (int run = 0; run < 250; ++run) {
    const int replicas = 2 + drawn_below(random, 7);
    const std::int64_t turns = 1 + drawn_below(random, 20);
    const ReplicaExchange exchange =
        random() % 2 == 0
            ? served(ExchangedTensors::gradients)
            : served(ExchangedTensors::weights, 1 + drawn_below(random, 4));
    const std::vector<Traits>& boundaries = kBoundaries[random() % 4];
    const RunPlan plan =
        plan_of(replicas, exchange, Dealing::arrival, boundaries);
    const int depth = plan.depth();
    Costs costs = costs_of(replicas, 1 + drawn_below(random, 5), 0.3, depth);
    costs.seed = random();
    Simulation simulation({plan}, costs, capacities_of(plan, 2));
    std::vector<std::vector<std::int64_t>> applied(
        static_cast<std::size_t>(depth));
    std::int64_t turn = 0;
    while (turn < turns) {
      Grant grant;
      grant.first_turn = turn;
      grant.end_turn =
          std::min<std::int64_t>(turns, turn + 1 + drawn_below(random, 8));
      grant.checkpoint = random() % 2 == 0;
      grant.drain = grant.end_turn == turns;
      turn = grant.end_turn;
      for (int seat = 1; seat <= replicas * depth; ++seat)
        simulation.give(seat, grant);
      while (const auto timed = simulation.next())
        if (timed->action.op == Op::update)
          applied[static_cast<std::size_t>((timed->seat - 1) % depth)]
              .push_back(timed->action.batch);
      ASSERT_TRUE(simulation.finished()) << simulation.stuck();
    }
    for (auto& of_block : applied) {
      std::sort(of_block.begin(), of_block.end());
      ASSERT_EQ(of_block, first_numbers(turns * replicas)) << "run " << run;
    }
  }
}

TEST(DealByArrival, IsReplayedFromItsText) {
  const RunPlan plan = plan_of(3, served(ExchangedTensors::gradients));
  const Costs costs = costs_of(3, 3, 0.2);
  const auto timeline = timeline_of(plan, costs, 6, true);
  std::vector<std::vector<Action>> told(3);
  for (TimedAction timed : timeline)
    told[static_cast<std::size_t>(timed.seat) - 1].push_back(timed.action);
  std::vector<std::vector<Action>> read;
  for (const auto& actions : told)
    read.push_back(actions_from_text(to_text(actions), ExchangeKind::push));
  const auto again = simulate(plan, costs, capacities_of(plan, 2), read);
  ASSERT_EQ(again.size(), timeline.size());
  for (const int seat : {1, 2, 3})
    EXPECT_EQ(batches_of(seat, again, Op::update),
              batches_of(seat, timeline, Op::update));
}

TEST(DealByArrival, IsRefusedWhereItMakesNoSense) {
  const auto refused = [](const RunPlan& one, const ReplicaExchange& exchange,
                          const char* why) {
    EXPECT_THAT(
        [&] { with_replicas(one, 2, exchange, false, Dealing::arrival); },
        ThrowsMessage<UserError>(HasSubstr(why)));
  };
  ReplicaExchange lockstep = served(ExchangedTensors::gradients);
  lockstep.served = false;
  refused(make_run_plan({}, false), lockstep, "schedule = 'free'");
  ReplicaExchange waiting = served(ExchangedTensors::gradients);
  waiting.quorum = {.least = 2};
  refused(make_free_plan({}), waiting, "policy = 'all_reduce'");
  refused(make_free_plan({}, 2), served(ExchangedTensors::gradients),
          "accumulate = 1");
  refused(make_free_plan({Traits()}, 2), served(ExchangedTensors::gradients),
          "accumulate = 1");
}

}  // namespace sluice::dealer_test
