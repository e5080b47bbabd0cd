#include "lib/schedules/replicas/replicas.h"

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

constexpr ReplicaExchange kGradients{.what = ExchangedTensors::gradients};

RunPlan plan_of(std::string_view order, int blocks, ScheduleOptions options,
                const Traits& boundary = {}) {
  return find_row(schedule_rows(), order, "order")
      .make(std::vector<Traits>(static_cast<std::size_t>(blocks) - 1, boundary),
            options);
}

RunPlan plain(int blocks) {
  return plan_of("turns", blocks, {});
}

std::string text_of(const RunPlan& plan, int seat, const Grant& grant) {
  return to_text(actions_of(by_block(plan.blocks, seat), grant));
}

void expect_refused(const RunPlan& plan, const std::string& remedy) {
  try {
    with_replicas(plan, 2, kGradients);
    FAIL() << "not refused: " << remedy;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(remedy), std::string::npos)
        << error.what();
  }
}

double end_of(const std::vector<TimedAction>& timeline) {
  double end = 0;
  for (const TimedAction& timed : timeline) end = std::max(end, timed.end);
  return end;
}

std::vector<TimedAction> timeline_of(const RunPlan& plan, const Costs& costs,
                                     std::int64_t turns) {
  return simulate(plan, costs, capacities_of(plan, 0),
                  Grant{.end_turn = turns});
}

TEST(Replicas, ReplicasOfOneArePlainBlocks) {
  const RunPlan one = plain(3);
  const RunPlan same = with_replicas(one, 1, kGradients);
  EXPECT_EQ(text_of(same, 2, {.end_turn = 2}),
            text_of(one, 2, {.end_turn = 2}));
}

TEST(Replicas, SumGradientsBeforeTheUpdateAppliesThem) {
  const RunPlan plan = with_replicas(plain(2), 3, kGradients);
  EXPECT_EQ(plan.blocks.size(), 6U);
  for (int seat = 1; seat <= 6; ++seat)
    EXPECT_EQ(text_of(plan, seat, {.end_turn = 2}),
              "F0 B0 X0 S0 U0 F1 B1 X1 S1 U1");
}

TEST(Replicas, ReplicasOfShardsGatherWhatEachHasUpdated) {
  const RunPlan plan = with_replicas(
      plain(2), 3, {.what = ExchangedTensors::gradients, .shards = true});
  for (int seat = 1; seat <= 6; ++seat)
    EXPECT_EQ(text_of(plan, seat, {.end_turn = 2}),
              "F0 B0 X0 S0 U0 X0.2 S0.2 F1 B1 X1 S1 U1 X1.2 S1.2");
}

constexpr ReplicaExchange kTravelling{.what = ExchangedTensors::weights,
                                      .every = 4,
                                      .overlap = 2,
                                      .agrees = true};

TEST(Replicas, TakeWeightsThatTravelRightBeforeTheUpdateThatTheyAreFor) {
  const RunPlan plan = with_replicas(plain(1), 2, kTravelling);
  for (int seat = 1; seat <= 2; ++seat)
    EXPECT_EQ(text_of(plan, seat, {.end_turn = 8}),
              "F0 B0 U0 F1 B1 U1 X1 F2 B2 U2 F3 B3 S1 U3 F4 B4 U4 F5 B5 U5 X5 "
              "F6 B6 U6 F7 B7 S5 U7");
}

TEST(Replicas, TakeWeightsThatTravelBeforeTheGrantEnds) {
  const RunPlan plan = with_replicas(plain(1), 2, kTravelling);
  EXPECT_EQ(text_of(plan, 1, {.end_turn = 3, .evaluation_batches = 1}),
            "F0 B0 U0 F1 B1 U1 X1 F2 B2 U2 S1 X3.1 S3.1 E0");
  EXPECT_EQ(text_of(plan, 1, {.first_turn = 3, .end_turn = 6}),
            "F3 B3 U3 F4 B4 U4 F5 B5 U5 X5 S5");
}

TEST(Replicas, DoNotWaitForWeightsThatTravelWhileTheyTrain) {
  Costs costs;
  costs.blocks = {{.seconds = {{Op::forward, 1}, {Op::backward, 2}}}};
  costs.exchange_link.latency = 3;
  const auto seconds = [&](std::int64_t overlap) {
    ReplicaExchange exchange = kTravelling;
    exchange.overlap = overlap;
    return end_of(timeline_of(with_replicas(plain(1), 2, exchange), costs, 8));
  };
  EXPECT_DOUBLE_EQ(seconds(2), 24);
  EXPECT_GT(seconds(0), 24 + 2 * 3);
}

TEST(Replicas, MayExchangeTwiceBeforeAnUpdate) {
  ReplicaExchange twice = kGradients;
  twice.rounds = 2;
  const RunPlan plan = with_replicas(plain(2), 3, twice);
  for (int seat = 1; seat <= 6; ++seat)
    EXPECT_EQ(text_of(plan, seat, {.end_turn = 2}),
              "F0 B0 X0 S0 X0.3 S0.3 U0 F1 B1 X1 S1 X1.3 S1.3 U1");
}

TEST(Replicas, ExchangeTwiceInTheOrderOfAnyPipeline) {
  ReplicaExchange twice = kGradients;
  twice.rounds = 2;
  ScheduleOptions options;
  options.micro_batches = {.count = 4, .samples = 8};
  for (const char* order : {"gpipe", "1f1b", "zb-h1"}) {
    const RunPlan plan = with_replicas(plan_of(order, 3, options), 2, twice);
    const Costs costs{.latency = 0.5};
    EXPECT_GT(end_of(timeline_of(plan, costs, 3)), 0) << order;
    const std::string text = text_of(plan, 2, {.end_turn = 2});
    EXPECT_NE(text.find(" S3 X3.3 S3.3 U3"), std::string::npos) << text;
  }
  const RunPlan shared =
      with_replicas(plan_of("interleaved", 3, {.executors = 1}), 2, twice);
  EXPECT_GT(end_of(timeline_of(shared, Costs{.latency = 0.5}, 3)), 0);
}

// Each of N sends N - 1 others all of its bytes, or their own part of them.
TEST(Replicas, ExchangeInTheTimeOfTheWayThatTheirBytesGo) {
  Costs costs;
  costs.exchange_bytes = {800};
  costs.exchange_link = {.latency = 0.25, .bandwidth = 100};
  const auto seconds = [&](ExchangeWay way, int rounds) {
    ReplicaExchange exchange = kGradients;
    exchange.way = way;
    exchange.rounds = rounds;
    return end_of(timeline_of(with_replicas(plain(1), 4, exchange), costs, 1));
  };
  EXPECT_DOUBLE_EQ(seconds(ExchangeWay::to_all, 1), 3 * (0.25 + 8));
  EXPECT_DOUBLE_EQ(seconds(ExchangeWay::to_owners, 2), 2 * 3 * (0.25 + 2));
  EXPECT_DOUBLE_EQ(seconds(ExchangeWay::sum, 2), 2 * 2 * 3 * (0.25 + 2));
}

TEST(Replicas, ReplicasOfShardsSendAsManyBytesAsOthers) {
  Costs costs;
  costs.blocks.resize(2, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}});
  costs.exchange_link = {.latency = 0.25, .bandwidth = 1};
  costs.exchange_bytes = {6, 6};
  ReplicaExchange exchange = kGradients;
  const auto end = [&] {
    const RunPlan plan = with_replicas(plain(2), 3, exchange);
    return end_of(timeline_of(plan, by_seat(costs, plan), 3));
  };
  const double whole = end();
  exchange.shards = true;
  EXPECT_NEAR(end(), whole, 1e-12);
}

TEST(Replicas, WaitForEachOtherWhileOtherBlocksOfTheExecutorCompute) {
  ScheduleOptions options{.executors = 1};
  const RunPlan plan =
      with_replicas(plan_of("interleaved", 3, options), 2, kGradients);
  std::string text;
  for (const SeatAction& each : executor_actions(plan, 1, {.end_turn = 2}))
    text += " " + std::to_string(each.seat) + to_text(each.action);
  EXPECT_EQ(text,
            " 4F0 5F0 6F0 6B0 6X0 5B0 5X0 4B0 4X0"
            " 4S0 4U0 4F1 5S0 5U0 5F1 6S0 6U0 6F1 6B1 6X1 5B1 5X1 4B1 4X1"
            " 4S1 4U1 5S1 5U1 6S1 6U1");
}

TEST(Replicas, SumAWindowOnce) {
  ScheduleOptions options{.accumulate = 2};
  options.micro_batches = {.count = 2, .samples = 8};
  const RunPlan plan =
      with_replicas(plan_of("turns", 2, options), 2, kGradients);
  EXPECT_EQ(text_of(plan, 4, {.end_turn = 2}),
            "F0 B0 F1 B1 F2 B2 F3 B3 X3 S3 U3");
}

TEST(Replicas, SumAfterTheLastHalfOfASplitBackward) {
  ScheduleOptions options;
  options.micro_batches = {.count = 2, .samples = 8};
  const RunPlan plan =
      with_replicas(plan_of("zb-h1", 2, options), 2, kGradients);
  const std::string all = text_of(plan, 2, {.end_turn = 1});
  EXPECT_TRUE(all.ends_with("W1 X1 S1 U1")) << all;
}

TEST(Replicas, SumWeightsAfterEverySoManyUpdates) {
  const RunPlan plan = with_replicas(
      plain(2), 2, {.what = ExchangedTensors::weights, .every = 2});
  EXPECT_EQ(text_of(plan, 1, {.end_turn = 4}),
            "F0 B0 U0 F1 B1 U1 X1 S1 F2 B2 U2 F3 B3 U3 X3 S3");
}

TEST(Replicas, SumWeightsBeforeTheUpdateThatTakesAccountOfIt) {
  const RunPlan plan = with_replicas(
      plain(2), 2, {.what = ExchangedTensors::old_weights, .every = 2});
  EXPECT_EQ(text_of(plan, 1, {.end_turn = 2}), "F0 B0 U0 F1 B1 X1 S1 U1");
}

TEST(Replicas, SumTheGradientsOfLessonsOrAverageWhatLearns) {
  const Traits synthesizer{.cut = true,
                           .own = true,
                           .lower = {.learns = true, .learns_by_steps = true}};
  const RunPlan one = plan_of("turns", 2, {}, synthesizer);
  EXPECT_EQ(text_of(with_replicas(one, 2, kGradients), 3, {.end_turn = 2}),
            "F0 B0 X0 S0 U0 L0 X0.6 S0.6 F1 B1 X1 S1 U1 L1 X1.6 S1.6");
  const RunPlan averaged =
      with_replicas(one, 2, {.what = ExchangedTensors::weights});
  EXPECT_EQ(text_of(averaged, 3, {.end_turn = 2}),
            "F0 B0 U0 X0 S0 L0 F1 B1 U1 X1 S1 L1");
  const RunPlan plan = with_replicas(one, 3, kGradients);
  EXPECT_GT(end_of(timeline_of(plan, {.latency = 0.5}, 5)), 0);
}

const Action kSettle{.op = Op::settle, .kind = ExchangeKind::gradients};
const Action kUpdate{.op = Op::update};

TEST(Replicas, HaveTheNormOfTheirSumsComeDownAfterThem) {
  const RunPlan plan =
      with_replicas(plan_of("turns", 3, {.model_norm = true}), 2, kGradients);
  const int middle = 5;  // block 2 of replica 2
  EXPECT_EQ(needs_of(plan, middle, kSettle),
            (std::vector<Transfer>{{MessageKind::norm, 6, 5}}));
  EXPECT_EQ(yields_of(plan, middle, kSettle),
            (std::vector<Transfer>{{MessageKind::norm, 5, 4}}));
  EXPECT_TRUE(needs_of(plan, 6, kSettle).empty());
  EXPECT_TRUE(yields_of(plan, 4, kSettle).empty());
  EXPECT_EQ(needs_of(plan, middle, kUpdate),
            (std::vector<Transfer>{{MessageKind::norm, 4, 5}}));
}

TEST(Replicas, ThatClipTheirOwnGradientsHaveTheNormBeforeTheyPublish) {
  ReplicaExchange own = kGradients;
  own.clips_own = true;
  const RunPlan plan =
      with_replicas(plan_of("turns", 3, {.model_norm = true}), 2, own);
  const Action exchange{.op = Op::exchange, .kind = ExchangeKind::gradients};
  EXPECT_EQ(needs_of(plan, 5, exchange),
            (std::vector<Transfer>{{MessageKind::norm, 4, 5}}));
  EXPECT_EQ(yields_of(plan, 5, exchange),
            (std::vector<Transfer>{{MessageKind::norm, 5, 6}}));
  for (const Action& later : {kSettle, kUpdate}) {
    EXPECT_TRUE(needs_of(plan, 5, later).empty()) << to_text(later);
    EXPECT_TRUE(yields_of(plan, 5, later).empty()) << to_text(later);
  }
}

TEST(Replicas, WithTheNormOfAModelComeToTheEndInAnyOrder) {
  ReplicaExchange twice = kGradients;
  twice.rounds = 2;
  ReplicaExchange own = kGradients;
  own.clips_own = true;
  ScheduleOptions options{.model_norm = true, .accumulate = 2};
  options.micro_batches = {.count = 4, .samples = 8};
  for (const char* order : {"turns", "gpipe", "1f1b"})
    for (const ReplicaExchange& exchange :
         {kGradients, twice, own,
          ReplicaExchange{.what = ExchangedTensors::weights, .every = 2}}) {
      const RunPlan plan =
          with_replicas(plan_of(order, 3, options), 2, exchange);
      EXPECT_GT(end_of(timeline_of(plan, {.latency = 0.5}, 6)), 0) << order;
    }
}

TEST(Replicas, SpreadTheExchangesOfTheirBlocks) {
  const RunPlan plan = with_replicas(
      plain(2), 2, {.what = ExchangedTensors::weights, .every = 2},
      /*stagger=*/true);
  EXPECT_EQ(text_of(plan, 1, {.end_turn = 2}), "F0 B0 U0 F1 B1 U1 X1 S1");
  EXPECT_EQ(text_of(plan, 2, {.end_turn = 2}), "F0 B0 U0 X0 S0 F1 B1 U1");
}

TEST(Replicas, AgreeBeforeTheFirstOfThemEvaluates) {
  ReplicaExchange exchange{.what = ExchangedTensors::weights, .every = 9};
  exchange.agrees = true;
  const RunPlan plan = with_replicas(plain(1), 2, exchange);
  const Grant grant{.end_turn = 1, .evaluation_batches = 2, .checkpoint = true};
  EXPECT_EQ(text_of(plan, 1, grant), "F0 B0 U0 X1.1 S1.1 E0 E1 C1");
  EXPECT_EQ(text_of(plan, 2, grant), "F0 B0 U0 X1.1 S1.1 C1");
}

TEST(Replicas, HaveNoMessagesBetweenTheirChains) {
  const RunPlan plan = with_replicas(plain(2), 2, kGradients);
  const Action forward{Op::forward, 0};
  EXPECT_TRUE(yields_of(plan, 2, forward).empty());
  EXPECT_TRUE(needs_of(plan, 3, forward).empty());
  EXPECT_EQ(yields_of(plan, 3, forward).at(0),
            (Transfer{MessageKind::activation, 3, 4, 0, 0}));
}

TEST(Replicas, WaitForTheSlowestOfThem) {
  const RunPlan plan = with_replicas(plain(1), 3, kGradients);
  Costs costs;
  costs.blocks.resize(3);
  for (std::size_t r = 0; r < 3; ++r)
    costs.blocks[r].seconds = {{Op::forward, 1},
                               {Op::backward, 1 + 0.5 * double(r)}};
  EXPECT_DOUBLE_EQ(end_of(timeline_of(plan, costs, 4)), 4 * 3.0);
}

// Patarasu and Yuan: 2 (N - 1) steps of latency and a part of the bytes.
TEST(Replicas, ExchangeInTheTimeOfARing) {
  const RunPlan plan = with_replicas(plain(1), 4, kGradients);
  Costs costs;
  costs.blocks.push_back({.seconds = {{Op::forward, 1}, {Op::backward, 2}}});
  costs.exchange_bytes = {800};
  costs.exchange_link = {.latency = 0.25, .bandwidth = 100};
  EXPECT_DOUBLE_EQ(end_of(timeline_of(plan, costs, 1)),
                   1 + 2 + 2 * 3 * (0.25 + 2));
}

TEST(Replicas, ReplicasOfManyWaitLongerForTheSlowest) {
  double before = 0;
  for (const int count : {1, 4, 64}) {
    const RunPlan plan = with_replicas(plain(2), count, kGradients);
    Costs costs{.jitter = 0.3};
    costs.blocks.resize(2, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}});
    const double end = end_of(timeline_of(plan, costs, 20));
    EXPECT_GT(end, before) << count;
    before = end;
  }
}

TEST(Replicas, ReplicasOfAPipelineKeepItsOrder) {
  ScheduleOptions options;
  options.micro_batches = {.count = 4, .samples = 8};
  for (const char* order : {"gpipe", "1f1b", "zb-h1"}) {
    const RunPlan one = plan_of(order, 3, options);
    const RunPlan two = with_replicas(one, 2, kGradients);
    Costs costs;
    costs.blocks.resize(3, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}});
    EXPECT_DOUBLE_EQ(end_of(timeline_of(two, costs, 3)),
                     end_of(timeline_of(one, costs, 3)))
        << order;
  }
}

TEST(Replicas, HaveExecutorsOfTheirOwn) {
  ScheduleOptions options{.executors = 2};
  options.micro_batches = {.count = 2, .samples = 8};
  const RunPlan one = plan_of("interleaved", 4, options);
  const RunPlan two = with_replicas(one, 2, kGradients);
  EXPECT_EQ(executors_of(two), 4);
  EXPECT_EQ(seats_of(two, 3), (std::vector{6, 8}));
  EXPECT_EQ(first_beside(two, 8), 6);
  const Grant grant{.end_turn = 2, .evaluation_batches = 1};
  const auto of_one = executor_actions(one, 1, {.end_turn = 2});
  const auto of_two = executor_actions(two, 3, grant);
  std::size_t next = 0;
  for (const SeatAction& each : of_two) {
    // Updates wait for the sums.
    if (each.action.op != Op::forward && each.action.op != Op::backward)
      continue;
    while (of_one.at(next).action.op == Op::update) ++next;
    EXPECT_EQ(each.action, of_one.at(next).action);
    EXPECT_EQ(each.seat, of_one.at(next++).seat + 4);
  }
  EXPECT_EQ(timeline_of(two, {}, 2).size(),
            2 * timeline_of(one, {}, 2).size() + 32U);  // X and S
}

TEST(Replicas, DealTheSourceRoundByRound) {
  const RunPlan plan = with_replicas(plain(2), 3, kGradients);
  const MicroBatches& cut = plan.blocks[4].micro_batches;  // replica 3
  EXPECT_EQ(cut.replica, 3);
  EXPECT_EQ(cut.source_batch(0), 2);
  EXPECT_EQ(cut.source_batch(5), 17);
}

TEST(Replicas, CutTheLastDealOfAnEpochWhoeverHasIt) {
  ScheduleOptions options;
  options.micro_batches = {
      .count = 2, .samples = 8, .turns_per_epoch = 3, .last_samples = 3};
  const RunPlan plan =
      with_replicas(plan_of("turns", 1, options), 2, kGradients);
  // Deals 0 to 5 are turns 0 to 2 of both; 2 and 5 are short.
  EXPECT_EQ(text_of(plan, 1, {.end_turn = 3}),
            "F0 B0 F1 B1 X1 S1 U1 F2 B2 X2 S2 U2 F4 B4 F5 B5 X5 S5 U5");
  EXPECT_EQ(text_of(plan, 2, {.end_turn = 3}),
            "F0 B0 F1 B1 X1 S1 U1 F2 B2 F3 B3 X3 S3 U3 F4 B4 X4 S4 U4");
}

TEST(Replicas, SayWhomTheyWaitFor) {
  const RunPlan plan = with_replicas(plain(1), 2, kGradients);
  Simulation simulation({plan}, {}, capacities_of(plan, 0));
  simulation.give(1, {.end_turn = 1});
  while (simulation.next()) {
  }
  EXPECT_EQ(simulation.stuck(),
            "block 1 of replica 1 (S0) waits for what block 1 of replica 2 "
            "shall exchange with it; block 1 of replica 2 has nothing more to "
            "do");
}

TEST(Replicas, AreRefusedWhereTheyWouldDiffer) {
  expect_refused(plan_of("free", 2, {}), "schedule = 'lockstep'");
  expect_refused(plan_of("turns", 2, {},
                         {.cut = true, .own = true, .lower = {.learns = true}}),
                 "boundary 1: its policy learns");
}

}  // namespace
}  // namespace sluice
