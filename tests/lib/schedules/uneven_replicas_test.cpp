// Blocks with different numbers of replicas: batches find replicas by their
// number (parallel.md, C4 and A24).
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice::uneven_replicas_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Counts = std::vector<std::int64_t>;

constexpr ReplicaExchange kGradients{.what = ExchangedTensors::gradients};

RunPlan one_plan(std::string_view order, int blocks,
                 const ScheduleOptions& options = {},
                 const Traits& boundary = {}) {
  return find_row(schedule_rows(), order, "order")
      .make(std::vector<Traits>(static_cast<std::size_t>(blocks) - 1, boundary),
            options);
}

RunPlan plan_with(const Counts& counts, const ScheduleOptions& options = {}) {
  return with_uneven_replicas(
      one_plan("turns", static_cast<int>(counts.size()), options), counts,
      kGradients);
}

std::string text_of(const RunPlan& plan, int seat) {
  return to_text(actions_of(by_block(plan.blocks, seat), {.end_turn = 2}));
}

TEST(UnevenReplicas, ReplicasOfTheUpperBlockHaveAShareOfTheTurnEach) {
  const RunPlan plan = plan_with({1, 2});
  ASSERT_EQ(plan.blocks.size(), 3U);
  EXPECT_EQ(plan.depth(), 2);
  EXPECT_EQ(text_of(plan, 1), "F0 F1 B0 B1 U1 F2 F3 B2 B3 U3");
  EXPECT_EQ(text_of(plan, 2), "F0 B0 X0 S0 U0 F2 B2 X2 S2 U2");
  EXPECT_EQ(text_of(plan, 3), "F1 B1 X1 S1 U1 F3 B3 X3 S3 U3");
}

TEST(UnevenReplicas, ReplicasOfTheLowerBlockHaveAShareOfTheTurnEach) {
  const RunPlan plan = plan_with({2, 1});
  ASSERT_EQ(plan.blocks.size(), 3U);
  EXPECT_EQ(plan.depth(), 2);
  EXPECT_EQ(text_of(plan, 1), "F0 B0 X0 S0 U0 F2 B2 X2 S2 U2");
  EXPECT_EQ(text_of(plan, 2), "F0 B0 F1 B1 U1 F2 B2 F3 B3 U3");
  EXPECT_EQ(text_of(plan, 3), "F1 B1 X1 S1 U1 F3 B3 X3 S3 U3");
}

TEST(UnevenReplicas, UpdateAfterAWindowOfTurns) {
  const RunPlan plan = plan_with({2, 1}, {.accumulate = 2});
  EXPECT_EQ(text_of(plan, 2), "F0 B0 F1 B1 F2 B2 F3 B3 U3");
  EXPECT_EQ(text_of(plan, 3), "F1 B1 F3 B3 X3 S3 U3");
}

/// The lists that fit any use.
std::vector<Counts> lists() {
  return {{2, 1}, {1, 2}, {4, 2}, {2, 4}, {3, 1, 3}, {1, 4, 2}, {6, 3, 2}};
}

TEST(UnevenReplicas, ReplicasOfABlockForwardEachBatchOfTheDataOnce) {
  for (const Counts& counts : lists()) {
    const RunPlan plan = plan_with(counts);
    std::map<int, std::vector<std::int64_t>> forwarded;
    for (const BlockPlan& seat : plan.blocks)
      for (const Action& action : actions_of(seat, {.end_turn = 3}))
        if (action.op == Op::forward) {
          EXPECT_EQ(seat.micro_batches.turn_of(action.batch), action.turn);
          EXPECT_EQ(seat.micro_batches.replica_with(action.batch),
                    seat.replica);
          forwarded[seat.block].push_back(
              seat.micro_batches.source_batch(action.batch));
        }
    std::vector<std::int64_t> all;
    for (std::int64_t b = 0; b < std::int64_t{3} * plan.replicas; ++b)
      all.push_back(b);
    for (auto& [block, batches] : forwarded) {
      std::sort(batches.begin(), batches.end());
      EXPECT_EQ(batches, all) << testing::PrintToString(counts) << block;
    }
  }
}

TEST(UnevenReplicas, TakeUpTheDataWhereAnotherNumberOfReplicasEnded) {
  RunPlan plan = plan_with({2, 1});
  MicroBatches& cut = plan.blocks.back().micro_batches;  // block 1, replica 2
  cut.deals.since_turn = 5;
  cut.deals.since_deal = 15;
  EXPECT_EQ(cut.batch_of(5, 0), 11);
  EXPECT_EQ(cut.source_batch(11), 16);
}

TEST(UnevenReplicas, SendToTheReplicaThatTheNumberOfTheBatchNames) {
  // Seats: 1 and 2 of replica 1, 3 and 4 of replica 2, then two of block 1.
  const RunPlan plan = plan_with({4, 2});
  EXPECT_THAT(neighbours_in_turn(plan, 2, Direction::below), ElementsAre(1, 5));
  EXPECT_THAT(neighbours_in_turn(plan, 4, Direction::below), ElementsAre(3, 6));
  EXPECT_THAT(neighbours_of(plan, 5, Direction::above), ElementsAre(2));
  EXPECT_THAT(neighbours_of(plan, 5, Direction::below), ElementsAre());
  EXPECT_THAT(links_of(plan), ElementsAre(SeatPair{1, 2}, SeatPair{3, 4},
                                          SeatPair{5, 2}, SeatPair{6, 4}));
  EXPECT_EQ(link_between(plan, {5, 2}), 3);
  const Neighbours of_block_2(plan, 4);
  EXPECT_EQ(of_block_2.below(MessageKind::activation, 7), 6);
  EXPECT_EQ(of_block_2.below(MessageKind::activation, 5), 3);
}

TEST(UnevenReplicas, EvaluateInTheFirstReplicaOfEachBlock) {
  for (const Counts& counts : lists()) {
    const RunPlan plan = plan_with(counts);
    const Action action{.op = Op::evaluate, .batch = 1};
    for (int seat = 2; seat <= plan.depth(); ++seat)
      EXPECT_EQ(needs_of(plan, seat, action),
                std::vector{
                    (Transfer{MessageKind::evaluation, seat - 1, seat, 1, 0})});
  }
}

class UnevenDelays : public testing::TestWithParam<std::pair<int, Order>> {};
INSTANTIATE_TEST_SUITE_P(UnevenReplicas, UnevenDelays,
                         testing::Values(std::pair(0, Order::forward_first),
                                         std::pair(1, Order::forward_first),
                                         std::pair(1, Order::backward_first),
                                         std::pair(2, Order::forward_first)));

TEST_P(UnevenDelays, TakeWhatTheirNeighboursSendAndNeverWaitForThemselves) {
  Traits boundary;
  boundary.delay = GetParam().first;
  boundary.order = GetParam().second;
  for (const Counts& counts : lists()) {
    const RunPlan plan = with_uneven_replicas(
        one_plan("turns", static_cast<int>(counts.size()), {}, boundary),
        counts, kGradients);
    const std::vector<Capacity> capacities = capacities_of(plan, 0);
    EXPECT_EQ(capacities.size(), links_of(plan).size());
    Simulation simulation({plan}, {}, capacities);
    for (const BlockPlan& seat : plan.blocks)
      simulation.give(seat.seat(), sample_grant(plan, 5));
    while (simulation.next()) {
    }
    EXPECT_TRUE(simulation.finished()) << testing::PrintToString(counts);
  }
}

TEST(UnevenReplicas, WorkBesideEachOtherAsFarAsTheirNumberAllows) {
  Costs costs;
  costs.blocks.resize(2, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}});
  const auto seconds = [&](const RunPlan& plan) {
    return steady_speed(plan, costs, capacities_of(plan, 0)).seconds_per_turn;
  };
  const RunPlan one = one_plan("turns", 2);
  EXPECT_NEAR(seconds(with_replicas(one, 2, kGradients)), 6, 1e-9);
  // Block 2 does one batch after the other: the second replica of block 1 has
  // its gradient 3 s after the first.
  EXPECT_NEAR(seconds(plan_with({2, 1})), 9, 1e-9);
  // Block 1 forwards both, then goes backward twice.
  EXPECT_NEAR(seconds(plan_with({1, 2})), 8, 1e-9);
}

TEST(UnevenReplicas, AreNamedByBlockAndReplica) {
  const SeatNames names = seat_names(plan_with({2, 1, 2}));
  EXPECT_EQ(names.seats(), 5);
  EXPECT_EQ(names.of(4), "block 1 of replica 2");
  EXPECT_EQ(names.short_of(5), "block 3.2");
  EXPECT_EQ(names.short_of(2), "block 2.1");
}

TEST(UnevenReplicas, AreOneReplicaEachAsFarAsTheFirstGoes) {
  const RunPlan first = first_replica(plan_with({2, 1}));
  EXPECT_FALSE(first.is_uneven());
  EXPECT_EQ(text_of(first, 2), "F0 B0 U0 F1 B1 U1");
}

// UnevenDelays are of turns, whatever a replica has of them.
TEST(UnevenReplicas, ApplyWholeTurnsLate) {
  Traits late;
  late.delay = 1;
  const RunPlan plan =
      with_uneven_replicas(one_plan("turns", 2, {}, late), {1, 2}, kGradients);
  EXPECT_EQ(text_of(plan, 1), "F0 F1 F2 F3 B0 B1 U1");
  EXPECT_EQ(text_of(plan, 3), "F1 B1 X1 S1 U1 F3 B3 X3 S3 U3");
  Ledger ledger;
  ledger.begin(plan.blocks.front(), 2, 0);
  EXPECT_THAT(ledger.with(Mark::in_flight),
              ElementsAre(BatchRound{2, 0}, BatchRound{3, 0}));
  EXPECT_THAT(in_flight(plan, 2, 0),
              ElementsAre(Transfer{MessageKind::gradient, 2, 1, 2, 0},
                          Transfer{MessageKind::gradient, 3, 1, 3, 0}));
  late.order = Order::backward_first;
  const RunPlan other =
      with_uneven_replicas(one_plan("turns", 2, {}, late), {1, 2}, kGradients);
  EXPECT_EQ(text_of(other, 1), "F0 F1 B0 B1 U1 F2 F3");
}

void expect_refused(const RunPlan& one, const Counts& counts,
                    const char* remedy) {
  EXPECT_THAT([&] { with_uneven_replicas(one, counts, kGradients); },
              ThrowsMessage<UserError>(HasSubstr(remedy)));
}

TEST(UnevenReplicas, AreRefusedInWordsWhereOrdersAndDelaysForbidThem) {
  const MicroBatches two{.count = 2, .samples = 4};
  expect_refused(one_plan("turns", 2, {.micro_batches = two}), {2, 1},
                 "pipeline.micro_batches = 1");
  expect_refused(one_plan("gpipe", 2, {.micro_batches = two}), {2, 1},
                 "pipeline.order = 'turns'");
  Traits synchronised;
  synchronised.delay = 1;
  synchronised.weights.of_entry = true;
  expect_refused(one_plan("turns", 2, {}, synchronised), {1, 2},
                 "set other weights");
  expect_refused(one_plan("turns", 2, {.model_norm = true}), {2, 1},
                 "clip.scope = 'block'");
}

}  // namespace sluice::uneven_replicas_test
