// What holds of every exact pipeline: the time of its formula, graphs, room in
// channels, and that what it does is complete.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/schedules/simulation/simulation.h"
#include "lib/schedules/simulation/speed.h"
#include "tests/lib/schedules/pipeline_plans.h"

namespace sluice::pipelines_test {

/// Seconds of a forward and of the halves of a backward.
struct Times {
  double forward = 3;
  double input = 2.5;
  double weights = 2;
  double all() const { return forward + input + weights; }
};

Costs costs_of(const RunPlan& plan, const Times& times = {}) {
  return {.blocks = std::vector<BlockCosts>(
              plan.blocks.size(),
              {.seconds = {{Op::forward, times.forward},
                           {Op::backward, times.input + times.weights},
                           {Op::backward_input, times.input},
                           {Op::backward_weights, times.weights}}})};
}

struct Shape {
  std::string order;
  int blocks = 1;
  int batches = 1;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.order << " in " << shape.blocks << " blocks, " << shape.batches
       << " batches";
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const char* order : {"gpipe", "1f1b", "zb-h1"})
    for (const int blocks : {1, 2, 3, 4, 8})
      for (const int batches : {1, 2, 4, 8, 16})
        if (blocks * batches <= 64 &&  // more takes minutes under sanitizers
            (order != std::string("zb-h1") || batches >= blocks))
          all.push_back({order, blocks, batches});
  return all;
}

RunPlan plan_of(const Shape& shape) {
  return pipeline_plan(
      shape.order,
      std::vector<Traits>(static_cast<std::size_t>(shape.blocks) - 1),
      shape.batches);
}

std::vector<TimedAction> timeline_of(const RunPlan& plan,
                                     const std::vector<Capacity>& capacities,
                                     std::int64_t turns = 1,
                                     const Times& times = {}) {
  return simulate(plan, costs_of(plan, times), capacities,
                  Grant{.end_turn = turns});
}

double end_of(const std::vector<TimedAction>& timeline) {
  double end = 0;
  for (const TimedAction& timed : timeline) end = std::max(end, timed.end);
  return end;
}

/// The published one of ZB-H1 where W takes least; else no more than the least
/// can be hidden.
double formula_of(const Shape& shape, const Times& times = {}) {
  const double m = shape.batches;
  const double others = shape.blocks - 1;
  if (shape.order != "zb-h1") return (m + others) * times.all();
  return m * times.all() +
         others * (times.forward + times.input -
                   std::min({times.forward, times.input, times.weights}));
}

class EveryPipeline : public testing::TestWithParam<Shape> {
 protected:
  const RunPlan plan_ = plan_of(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Pipelines, EveryPipeline, testing::ValuesIn(shapes()));

TEST_P(EveryPipeline, TakesTheTimeOfItsFormula) {
  for (const Times& times : {Times{3, 2.5, 2}, Times{1, 1, 1}, Times{3, 2, 2.5},
                             Times{2, 3, 2.5}, Times{2, 2.5, 3}})
    EXPECT_EQ(end_of(timeline_of(plan_, capacities_of(plan_, 2), 1, times)),
              formula_of(GetParam(), times));
}

/// The most batches of a block that hold a graph at once.
std::size_t most_graphs(const RunPlan& plan, int block) {
  const BlockPlan& mine = by_block(plan.blocks, block);
  Ledger ledger;
  std::size_t most = 0;
  for (const Action& action : actions_of(mine, {.end_turn = 3})) {
    ledger.did(mine, action);
    most = std::max(most, ledger.with(Mark::in_flight).size() +
                              ledger.with(Mark::halved).size());
  }
  return most;
}

TEST_P(EveryPipeline, HoldsNoMoreGraphsThanItsBound) {
  const Shape& shape = GetParam();
  for (int block = 1; block <= shape.blocks; ++block) {
    const int ahead = shape.order == "1f1b"    ? shape.blocks - block + 1
                      : shape.order == "zb-h1" ? shape.blocks
                                               : shape.batches;
    EXPECT_EQ(most_graphs(plan_, block),
              static_cast<std::size_t>(std::min(ahead, shape.batches)))
        << "block " << block;
  }
}

TEST_P(EveryPipeline, ComesToItsEndWithTheLeastCapacitiesAndNotWithLess) {
  const std::vector<Capacity> least = capacities_of(plan_, 0);
  EXPECT_NO_THROW(timeline_of(plan_, least, 20));
  for (std::size_t k = 0; k < least.size(); ++k)
    for (std::size_t Capacity::*const side : {&Capacity::up, &Capacity::down}) {
      std::vector<Capacity> less = least;
      if (--(less[k].*side) == 0) continue;
      EXPECT_THROW(timeline_of(plan_, less, 20), UserError) << "boundary " << k;
    }
}

// The sample that capacities are found with is shorter than an epoch.
TEST_P(EveryPipeline, ComesThroughAShortTurnWithTheLeastCapacities) {
  const int whole = GetParam().batches;
  for (int batches = 1; batches <= whole; ++batches) {
    const MicroBatches cut{.count = whole,
                           .samples = std::int64_t{2} * whole,
                           .turns_per_epoch = 20,
                           .last_samples = std::int64_t{2} * batches};
    const RunPlan plan = pipeline_plan(
        GetParam().order,
        std::vector<Traits>(static_cast<std::size_t>(GetParam().blocks) - 1),
        cut);
    EXPECT_NO_THROW(timeline_of(plan, capacities_of(plan, 0), 45)) << batches;
  }
}

TEST_P(EveryPipeline, IsDoneWithEachTurnBeforeItsUpdate) {
  for (const BlockPlan& block : plan_.blocks) {
    Ledger ledger;
    std::map<Op, std::int64_t> last;
    for (const Action& action :
         actions_of(block, {.end_turn = 3, .checkpoint = true})) {
      ASSERT_TRUE(ledger.may(action)) << ledger.lacks(action);
      ledger.did(block, action);
      const bool ends = action.op == Op::update || action.op == Op::save;
      if (ends) {
        EXPECT_TRUE(ledger.with(Mark::in_flight).empty());
        EXPECT_TRUE(ledger.with(Mark::halved).empty());
        continue;
      }
      const auto [before, is_first] = last.emplace(action.op, action.batch);
      EXPECT_TRUE(is_first || before->second < action.batch)
          << "batches follow each other";
      before->second = action.batch;
    }
  }
}

TEST_P(EveryPipeline, IsNoSlowerInASteadyStateThanByItself) {
  const Speed speed =
      steady_speed(plan_, costs_of(plan_), capacities_of(plan_, 2));
  EXPECT_LE(speed.seconds_per_turn, formula_of(GetParam()) * (1 + 1e-9));
  const double work = GetParam().batches * Times().all();
  for (const double busy : speed.utilisation)
    EXPECT_NEAR(busy, work / speed.seconds_per_turn, 1e-9);
}

TEST(Pipelines, PipelinesOfTwoSegmentsDontWaitForEachOther) {
  const Traits cut{.cut = true, .from_above = false};
  const RunPlan plan = pipeline_plan("1f1b", {{}, cut, {}}, 4);
  const auto timeline = timeline_of(plan, capacities_of(plan, 2));
  double lower = 0;
  for (const TimedAction& timed : timeline)
    if (timed.seat <= 2) lower = std::max(lower, timed.end);
  EXPECT_EQ(lower, (4 + 2 - 1) * Times().all());
}

TEST(Pipelines, RoomForWhatIsLearnedAfterATurnIsFound) {
  // Block 3 takes what came up in a turn at its end, block 2 what came down: so
  // one of them must have room for all.
  const Traits learning{
      .cut = true, .lower = {.learns = true}, .upper = UpperEnd::from_data};
  for (const int batches : {4, 256}) {
    const RunPlan plan = pipeline_plan("1f1b", {{}, learning, {}}, batches);
    std::vector<Capacity> capacities = capacities_of(plan, 0);
    EXPECT_EQ(capacities[1].up, 1U);
    EXPECT_GT(capacities[1].down, static_cast<std::size_t>(batches) - 3);
    EXPECT_NO_THROW(timeline_of(plan, capacities, 20));
    --capacities[1].down;
    EXPECT_THROW(timeline_of(plan, capacities, 20), UserError);
  }
}

TEST(OpSeconds, OpSecondsOfABackwardAndOfItsHalvesFollowFromEachOther) {
  const BlockCosts whole{.seconds = {{Op::backward, 3}}};
  EXPECT_EQ(op_seconds(whole, Op::backward_input), 1.5);
  EXPECT_EQ(op_seconds(whole, Op::backward_weights), 1.5);
  const BlockCosts halves{
      .seconds = {{Op::backward_input, 1}, {Op::backward_weights, 4}}};
  EXPECT_EQ(op_seconds(halves, Op::backward), 5);
  EXPECT_EQ(op_seconds(halves, Op::backward_input), 1);
  const BlockCosts all{.seconds = {{Op::backward, 3},
                                   {Op::backward_input, 2},
                                   {Op::backward_weights, 2}}};
  EXPECT_EQ(op_seconds(all, Op::backward), 3) << "halves cost more";
  EXPECT_EQ(op_seconds(all, Op::backward_weights), 2);
}

}  // namespace sluice::pipelines_test
