#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/lib/schedules/pipeline_plans.h"

namespace sluice::zb_v_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

RunPlan plan_of(int blocks, const MicroBatches& cut) {
  return pipeline_plan(
      "zb-v", std::vector<Traits>(static_cast<std::size_t>(blocks) - 1), cut);
}

RunPlan plan_of(int blocks, std::int64_t batches) {
  return plan_of(blocks,
                 MicroBatches{.count = batches, .samples = 2 * batches});
}

/// One second for a forward and for each half of a backward.
Costs unit_costs(const RunPlan& plan) {
  return {.blocks = std::vector<BlockCosts>(
              plan.blocks.size(), {.seconds = {{Op::forward, 1},
                                               {Op::backward, 2},
                                               {Op::backward_input, 1},
                                               {Op::backward_weights, 1}}})};
}

/// "1F0 4F0 ...": block, op and batch.
std::string text_of(const std::vector<SeatAction>& actions) {
  std::string text;
  for (const SeatAction& each : actions)
    text += (text.empty() ? "" : " ") + std::to_string(each.seat) +
            to_text(each.action);
  return text;
}

TEST(ZeroBubbleV, ZeroBubbleVHasThePublishedOrderOfTwoExecutors) {
  const RunPlan plan = plan_of(4, 3);
  EXPECT_EQ(text_of(executor_actions(plan, 0, {.end_turn = 1})),
            "1F0 1F1 1F2 4F0 4D0 4W0 4F1 4D1 4W1 1B0 4F2 4D2 4W2 4U2 1B1 1B2 "
            "1U2");
  EXPECT_EQ(text_of(executor_actions(plan, 1, {.end_turn = 1})),
            "2F0 3F0 2F1 3F1 3D0 3W0 2F2 2D0 2W0 3F2 3D1 3W1 2D1 3D2 2D2 2W1 "
            "3W2 3U2 2W2 2U2");
}

TEST(ZeroBubbleV, ExecutorOfAVHasABlockFromBelowAndOneFromAbove) {
  const RunPlan plan = plan_of(8, 4);
  EXPECT_EQ(executors_of(plan), 4);
  EXPECT_EQ(seats_of(plan, 0), (std::vector{1, 8}));
  EXPECT_EQ(seats_of(plan, 3), (std::vector{4, 5}));
  EXPECT_EQ(first_beside(plan, 6), 3);
}

TEST(ZeroBubbleV, ReplicasOfAVHaveExecutorsOfTheirOwn) {
  const RunPlan plan =
      with_replicas(plan_of(4, 4), 2, {.what = ExchangedTensors::gradients});
  EXPECT_EQ(executors_of(plan), 4);
  EXPECT_EQ(seats_of(plan, 2), (std::vector{5, 8}));
  EXPECT_EQ(seats_of(plan, 3), (std::vector{6, 7}));
  EXPECT_NO_THROW(simulate(plan, {.latency = 0.5}, capacities_of(plan, 0),
                           Grant{.end_turn = 3, .evaluation_batches = 2}));
}

struct Shape {
  int executors;
  int batches;
  int blocks() const { return 2 * executors; }
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.executors << " executors, " << shape.batches << " batches";
}

/// Batches that fill the pipe, and fewer too unless all are to fill it.
std::vector<Shape> shapes(bool are_full) {
  std::vector<Shape> all;
  for (const int p : {1, 2, 3, 4, 8})
    for (const int batches :
         std::set<int>{1, 2, p, 2 * p - 1, 2 * p, 3 * p + 1})
      if (!are_full || batches >= 2 * p - 1) all.push_back({p, batches});
  return all;
}

class EveryZeroBubbleV : public testing::TestWithParam<Shape> {
 protected:
  std::vector<TimedAction> timeline(const Costs& costs, const Grant& grant,
                                    std::size_t slack = 0) const {
    return simulate(plan_, costs, capacities_of(plan_, slack), grant);
  }
  int executor_of(const TimedAction& timed) const {
    return sluice::executor_of(plan_, timed.seat);
  }

  const Shape shape_ = GetParam();
  const RunPlan plan_ = plan_of(shape_.blocks(), shape_.batches);
};
INSTANTIATE_TEST_SUITE_P(Pipelines, EveryZeroBubbleV,
                         testing::ValuesIn(shapes(/*are_full=*/false)));

class FullZeroBubbleV : public EveryZeroBubbleV {};
INSTANTIATE_TEST_SUITE_P(Pipelines, FullZeroBubbleV,
                         testing::ValuesIn(shapes(/*are_full=*/true)));

/// 6 M seconds of an executor's work, after the E - 1 of the forwards before
/// it.
TEST_P(FullZeroBubbleV, NoExecutorWaitsOnceItHasBegun) {
  std::map<int, double> begin;
  std::map<int, double> end;
  for (const TimedAction& timed :
       timeline(unit_costs(plan_), {.end_turn = 1}, /*slack=*/2)) {
    begin.emplace(executor_of(timed), timed.start);
    end[executor_of(timed)] = timed.end;
  }
  for (int executor = 0; executor < shape_.executors; ++executor) {
    EXPECT_EQ(begin.at(executor), executor);
    EXPECT_EQ(end.at(executor), executor + 6 * shape_.batches);
  }
}

/// 1F1B's lowest executor holds E graphs of its two blocks.
TEST_P(EveryZeroBubbleV, HoldsNoMoreGraphsThan1F1B) {
  for (int executor = 0; executor < shape_.executors; ++executor) {
    std::map<int, Ledger> ledgers;
    std::size_t most = 0;
    for (const SeatAction& each :
         executor_actions(plan_, executor, {.end_turn = 3})) {
      Ledger& mine = ledgers[each.seat];
      ASSERT_TRUE(mine.may(each.action)) << mine.lacks(each.action);
      mine.did(by_block(plan_.blocks, each.seat), each.action);
      std::size_t held = 0;
      for (const auto& [seat, ledger] : ledgers)
        held += ledger.with(Mark::in_flight).size() +
                ledger.with(Mark::halved).size();
      most = std::max(most, held);
    }
    EXPECT_LE(most, static_cast<std::size_t>(shape_.blocks()));
  }
}

/// The gradients of a window are added in the order of its batches.
TEST_P(EveryZeroBubbleV, DoesEachOpOfABlockOnceForEachBatchInTheirOrder) {
  std::map<std::pair<int, Op>, std::vector<std::int64_t>> done;
  for (const TimedAction& timed : timeline({.latency = 0.5}, {.end_turn = 2}))
    done[{timed.seat, timed.action.op}].push_back(timed.action.batch);
  std::vector<std::int64_t> all;
  for (std::int64_t batch = 0; batch < 2 * shape_.batches; ++batch)
    all.push_back(batch);
  for (const BlockPlan& block : plan_.blocks) {
    const auto of = [&](Op op) { return done[{block.seat(), op}]; };
    const bool is_lowest = block.block == 1;
    EXPECT_EQ(of(Op::forward), all);
    EXPECT_EQ(of(Op::backward).empty(), !is_lowest);
    EXPECT_EQ(of(is_lowest ? Op::backward : Op::backward_input), all);
    EXPECT_EQ(of(is_lowest ? Op::backward : Op::backward_weights), all);
    EXPECT_EQ(of(Op::update).size(), 2U);
  }
}

TEST_P(EveryZeroBubbleV, DoesOfEveryBlockWhatItsOwnListSays) {
  const Grant grant{.end_turn = 3, .evaluation_batches = 2, .checkpoint = true};
  for (int executor = 0; executor < shape_.executors; ++executor)
    for (const int block : seats_of(plan_, executor)) {
      std::vector<Action> mine;
      for (const SeatAction& each : executor_actions(plan_, executor, grant))
        if (each.seat == block) mine.push_back(each.action);
      EXPECT_EQ(mine, actions_of(by_block(plan_.blocks, block), grant));
    }
}

TEST_P(EveryZeroBubbleV, NoExecutorDoesTwoThingsAtOnce) {
  Costs costs = unit_costs(plan_);
  for (std::size_t k = 0; k < costs.blocks.size(); ++k)
    costs.blocks[k].seconds[Op::forward] += 0.25 * static_cast<double>(k);
  std::map<int, double> free_since;
  for (const TimedAction& timed :
       timeline(costs,
                {.end_turn = 3, .evaluation_batches = 2, .checkpoint = true})) {
    double& free = free_since[executor_of(timed)];
    EXPECT_GE(timed.start, free);
    free = timed.end;
  }
}

TEST(ZeroBubbleV, ShortTurnsOfAVComeToTheirEnd) {
  for (int last = 1; last <= 8; ++last) {
    const RunPlan plan = plan_of(8, MicroBatches{.count = 8,
                                                 .samples = 16,
                                                 .turns_per_epoch = 2,
                                                 .last_samples = 2 * last});
    EXPECT_NO_THROW(simulate(plan, {}, capacities_of(plan, 0),
                             Grant{.end_turn = 5, .drain = true}))
        << last;
  }
}

TEST(ZeroBubbleV, BlockOnACutOfAVSplitsNoBackward) {
  const Traits cut{.cut = true, .from_above = false};
  const RunPlan plan = pipeline_plan("zb-v", {{}, cut, {}}, 3);
  EXPECT_EQ(first_turn_of(plan, 3), "F0 F1 B0 F2 B1 B2 U2");
  EXPECT_EQ(first_turn_of(plan, 4), "F0 D0 W0 F1 D1 W1 F2 D2 W2 U2");
  EXPECT_NO_THROW(simulate(plan, unit_costs(plan), capacities_of(plan, 0),
                           Grant{.end_turn = 3}));
}

void expect_refused(const std::vector<Traits>& boundaries,
                    const ScheduleOptions& options, const std::string& remedy) {
  EXPECT_THAT(
      [&] {
        find_row(schedule_rows(), "zb-v", "order").make(boundaries, options);
      },
      ThrowsMessage<UserError>(HasSubstr(remedy)));
}

TEST(ZeroBubbleV, RefusesBlocksThatAreNoPairs) {
  expect_refused({{}, {}}, {}, "set an even number of blocks");
  expect_refused({}, {}, "set an even number of blocks");
}

TEST(ZeroBubbleV, RefusesTheNormOfTheWholeModel) {
  expect_refused({{}}, {.model_norm = true}, "clip.scope = 'block'");
}

TEST(ZeroBubbleV, RefusesBoundariesThatDelayOrLearnOrVisitSeveralTimes) {
  expect_refused({{.delay = 1}}, {}, "order = 'zb-v' goes without delays");
  expect_refused(
      {{.cut = true, .lower = {.learns = true}, .upper = UpperEnd::from_data}},
      {}, "order = 'zb-v' can't have synthesizers");
  expect_refused({{.lower = {.sweeps = {.steps = 3}}}}, {},
                 "visits it several times");
}

}  // namespace sluice::zb_v_test
