// What replicas send each other in a number of turns, against what they do in
// these: counted action by action.
#include "lib/schedules/replicas/exchange_traffic.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::exchange_traffic_test {

constexpr std::int64_t kFirstTurns = 41;

RunPlan plan_of(int replicas, const ReplicaExchange& exchange,
                std::int64_t accumulate = 1, bool stagger = false) {
  const RunPlan one = find_row(schedule_rows(), "turns", "order")
                          .make({Traits()}, {.accumulate = accumulate});
  return with_replicas(one, replicas, exchange, stagger);
}

/// By one replica in one exchange, as the policies say it.
double sent_by(const BlockPlan& plan, const Action& exchange) {
  const int others = plan.exchange.members - 1;
  if (exchange.kind == ExchangeKind::adoption) return others;
  if (exchange.kind == ExchangeKind::peers)
    return static_cast<double>(peers_of(plan, exchange).to.size());
  const double part = static_cast<double>(others) / plan.exchange.members;
  if (plan.exchange.shards) return part;  // to sum, or to gather
  switch (plan.exchange.way) {
    case ExchangeWay::sum:
      return 2 * part;
    case ExchangeWay::to_owners:
      return part;
    case ExchangeWay::to_all:
      return others;
  }
  return 0;
}

/// By all replicas of the block.
double counted(const RunPlan& plan, int block, std::int64_t turns) {
  double sent = 0;
  for (const BlockPlan& seat : plan.blocks)
    if (seat.block == block)
      for (const Action& action :
           actions_of(seat, {.end_turn = turns, .drain = true}))
        if (action.op == Op::exchange) sent += sent_by(seat, action);
  return sent;
}

void expect_what_is_counted(const RunPlan& plan, const std::string& what) {
  for (int block = 1; block <= plan.depth(); ++block) {
    ExchangeTraffic traffic(by_block(plan.blocks, block));
    for (std::int64_t turns = 0; turns <= kFirstTurns; ++turns)
      ASSERT_NEAR(traffic.sent_in(turns), counted(plan, block, turns), 1e-9)
          << what << ", block " << block << ", turns " << turns;
  }
}

TEST(ExchangeTraffic, ExchangeTrafficOfSumsIsThatOfTheActions) {
  for (const int replicas : {2, 3, 8})
    for (const std::int64_t accumulate : {1, 3}) {
      const auto check = [&](const ReplicaExchange& exchange,
                             const char* what) {
        expect_what_is_counted(plan_of(replicas, exchange, accumulate), what);
      };
      check({.what = ExchangedTensors::weights, .every = 4, .overlap = 3},
            "travelling weights");
      check({.what = ExchangedTensors::gradients}, "gradients");
      check({.what = ExchangedTensors::gradients, .shards = true}, "shards");
      check({.what = ExchangedTensors::gradients, .way = ExchangeWay::to_all},
            "compressed");
      check({.what = ExchangedTensors::gradients,
             .way = ExchangeWay::to_owners,
             .rounds = 2},
            "two rounds");
      check({}, "nothing");
    }
}

TEST(ExchangeTraffic,
     ExchangeTrafficOfWeightsIsThatOfTheActionsWhateverThePeriod) {
  for (const ExchangedTensors what :
       {ExchangedTensors::weights, ExchangedTensors::old_weights})
    for (const std::int64_t every : {1, 2, 5, 7, 25, 40, 125})
      for (const std::int64_t accumulate : {1, 2, 5})
        for (const std::int64_t each_before : {0, 4, 13})
          for (const bool stagger : {false, true})
            expect_what_is_counted(
                plan_of(
                    3,
                    {.what = what, .every = every, .each_before = each_before},
                    accumulate, stagger),
                std::to_string(every) + " " + std::to_string(accumulate) + " " +
                    std::to_string(each_before));
}

TEST(ExchangeTraffic, AmongPeersIsThatOfTheActions) {
  const std::vector<PeerGraph> graphs = {
      {.shape = PeerShape::ring},
      {.shape = PeerShape::torus},
      {.shape = PeerShape::complete},
      {.shape = PeerShape::exponential},
      {.shape = PeerShape::ring, .pairs = true, .seed = 7},
      {.shape = PeerShape::hops, .rotates = true, .seed = 7},
      {.shape = PeerShape::random, .seed = 7}};
  for (const PeerGraph& graph : graphs)
    for (const std::int64_t every : {1, 3}) {
      const ReplicaExchange exchange{.what = ExchangedTensors::old_weights,
                                     .every = every,
                                     .graph = graph};
      expect_what_is_counted(plan_of(6, exchange),
                             std::string(shape_name(graph.shape)));
    }
}

TEST(ExchangeTraffic,
     ExchangeTrafficOfPairsIsNotThatOfTheFirstExchangeEachTime) {
  const ReplicaExchange exchange{
      .what = ExchangedTensors::old_weights,
      .graph = {.shape = PeerShape::ring, .pairs = true, .seed = 7}};
  ExchangeTraffic traffic(plan_of(8, exchange).blocks.front());
  EXPECT_NE(traffic.sent_in(100), 100 * traffic.sent_in(1));
}

TEST(ExchangeTraffic, HasAdoptionsInIt) {
  for (const std::int64_t adopts : {1, 4, 10, 50})
    for (const std::int64_t accumulate : {1, 3, 8}) {
      const ReplicaExchange exchange{.what = ExchangedTensors::gradients,
                                     .graph = {.shape = PeerShape::ring},
                                     .adopts = {adopts}};
      expect_what_is_counted(plan_of(4, exchange, accumulate),
                             std::to_string(adopts));
    }
}

/// Two replicas, of which each sends what it has once there and once back.
double of_two(std::int64_t every, std::int64_t turns) {
  ExchangeTraffic traffic(
      plan_of(2, {.what = ExchangedTensors::weights, .every = every})
          .blocks.front());
  return traffic.sent_in(turns);
}

TEST(ExchangeTraffic, CountsWholePeriodsOfLongRuns) {
  EXPECT_DOUBLE_EQ(of_two(1, 64), 2 * 64);
  EXPECT_DOUBLE_EQ(of_two(5, 64), 2 * 12);
  EXPECT_DOUBLE_EQ(of_two(5, 125), 2 * 25);
  EXPECT_DOUBLE_EQ(of_two(25, 250), 2 * 10);
  EXPECT_DOUBLE_EQ(of_two(125, 124), 0);
  EXPECT_DOUBLE_EQ(of_two(125, 250), 2 * 2);
  EXPECT_DOUBLE_EQ(of_two(std::int64_t{1'000'000'000'000}, 1'000'000), 0);
  EXPECT_DOUBLE_EQ(of_two(5, std::int64_t{1'000'000'000'000}), 2 * 2e11);
}

TEST(ExchangeTraffic, ExchangeTrafficOfASingleReplicaIsNone) {
  const RunPlan one = find_row(schedule_rows(), "turns", "order").make({}, {});
  ExchangeTraffic traffic(one.blocks.front());
  EXPECT_EQ(traffic.sent_in(100), 0);
}

TEST(ExchangeTraffic,
     ExchangeTrafficOfReplicasWithClocksOfTheirOwnIsThatOfTheirVisits) {
  constexpr int kReplicas = 3;
  for (const ExchangedTensors what :
       {ExchangedTensors::gradients, ExchangedTensors::weights})
    for (const std::int64_t every : {1, 3, 7})
      for (const std::int64_t turns : {2, 6, 20}) {
        const RunPlan plan =
            with_replicas(make_free_plan({}), kReplicas,
                          {.what = what,
                           .every = every,
                           .graph = {.shape = PeerShape::complete},
                           .served = true});
        Costs costs;
        for (const double slowness : {1.0, 1.0, 4.0})
          costs.blocks.push_back(
              {.seconds = {{Op::forward, 1}}, .slowness = slowness});
        double visits = 0;
        for (const TimedAction& timed :
             simulate(plan, costs, capacities_of(plan, 2),
                      {.end_turn = turns, .drain = true}))
          if (timed.action.op == Op::exchange) ++visits;
        ExchangeTraffic traffic(plan.blocks.front());
        EXPECT_DOUBLE_EQ(traffic.sent_in(turns), 2 * visits)
            << every << ", " << turns;
      }
}

TEST(ExchangeTraffic, IsUpToAClockWhereReplicasOrBatchesAreLeftOut) {
  const auto served = [](const Quorum& quorum) {
    return with_replicas(make_free_plan({}), 3,
                         {.what = ExchangedTensors::gradients,
                          .graph = {.shape = PeerShape::complete},
                          .served = true,
                          .quorum = quorum});
  };
  EXPECT_FALSE(clock_decides_work(served({})));
  EXPECT_FALSE(clock_decides_work(served({.least = 3})));
  EXPECT_TRUE(clock_decides_work(served({.least = 2, .drops_late = true})));
  RunPlan buffered = make_free_plan({});
  EXPECT_FALSE(clock_decides_work(buffered));
  buffered.blocks.front().free.inbox_above.slow_consumer =
      SlowConsumer::drop_oldest;
  EXPECT_TRUE(clock_decides_work(buffered));
}

}  // namespace sluice::exchange_traffic_test
