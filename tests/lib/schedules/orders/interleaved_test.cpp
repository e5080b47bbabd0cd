#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::interleaved_test {

struct Shape {
  int executors;
  int chunks;
  int batches;
  int blocks() const { return executors * chunks; }
};

ScheduleOptions options_of(const Shape& shape) {
  return {.micro_batches = {.count = shape.batches,
                            .samples = std::int64_t{2} * shape.batches},
          .executors = shape.executors};
}

RunPlan plan_of(int blocks, const ScheduleOptions& options) {
  return find_row(schedule_rows(), "interleaved", "order")
      .make(std::vector<Traits>(static_cast<std::size_t>(blocks) - 1), options);
}

RunPlan plan_of(const Shape& shape) {
  return plan_of(shape.blocks(), options_of(shape));
}

/// "1F0 3F0 ...": block, op and batch.
std::string text_of(const std::vector<SeatAction>& actions) {
  std::string text;
  for (const SeatAction& each : actions)
    text += (text.empty() ? "" : " ") + std::to_string(each.seat) +
            to_text(each.action);
  return text;
}

TEST(Interleaved, IsThePublishedOrderOfTwoExecutorsWithTwoBlocks) {
  const RunPlan plan = plan_of({2, 2, 4});
  EXPECT_EQ(text_of(executor_actions(plan, 0, {.end_turn = 1})),
            "1F0 1F1 3F0 3F1 1F2 3B0 1F3 3B1 3F2 1B0 3F3 1B1 3B2 3B3 3U3 1B2 "
            "1B3 1U3");
  EXPECT_EQ(text_of(executor_actions(plan, 1, {.end_turn = 1})),
            "2F0 2F1 4F0 4B0 4F1 4B1 2F2 2B0 2F3 2B1 4F2 4B2 4F3 4B3 4U3 2B2 "
            "2B3 2U3");
}

TEST(Interleaved, InterleavedOfOneBlockEachEndsAs1f1bDoes) {
  const RunPlan plan = plan_of({3, 1, 3});
  const RunPlan same =
      find_row(schedule_rows(), "1f1b", "order")
          .make({{}, {}}, {.micro_batches = {.count = 3, .samples = 6}});
  EXPECT_EQ(to_text(actions_of(plan.blocks[2], {.end_turn = 1})),
            to_text(actions_of(same.blocks[2], {.end_turn = 1})));
}

class EveryInterleaved : public testing::TestWithParam<Shape> {
 protected:
  const Shape shape_ = GetParam();
  const RunPlan plan_ = plan_of(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Shapes, EveryInterleaved,
                         testing::Values(Shape{2, 2, 2}, Shape{2, 2, 4},
                                         Shape{2, 4, 4}, Shape{2, 4, 8},
                                         Shape{3, 2, 3}, Shape{3, 2, 6},
                                         Shape{4, 2, 8}),
                         [](const auto& info) {
                           return std::to_string(info.param.executors) +
                                  "Executors" +
                                  std::to_string(info.param.chunks) + "Blocks" +
                                  std::to_string(info.param.batches) +
                                  "Batches";
                         });

TEST_P(EveryInterleaved, DoesOfEveryBlockWhatItsOwnListSays) {
  const Grant grant{.end_turn = 3, .evaluation_batches = 2, .checkpoint = true};
  for (int executor = 0; executor < shape_.executors; ++executor)
    for (const int block : seats_of(plan_, executor)) {
      std::vector<Action> mine;
      for (const SeatAction& each : executor_actions(plan_, executor, grant))
        if (each.seat == block) mine.push_back(each.action);
      EXPECT_EQ(mine, actions_of(by_block(plan_.blocks, block), grant));
    }
}

/// (K-1)(F+B)/v of bubble, F and B those of all blocks of an executor.
TEST_P(EveryInterleaved, TakesThePublishedTime) {
  constexpr double kForward = 2;
  constexpr double kBackward = 3;
  Costs costs;
  for (int block = 1; block <= shape_.blocks(); ++block)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, kForward}, {Op::backward, kBackward}}});
  double end = 0;
  for (const TimedAction& timed :
       simulate(plan_, costs, capacities_of(plan_, 2), Grant{.end_turn = 1}))
    end = std::max(end, timed.end);
  EXPECT_EQ(end, (shape_.batches * shape_.chunks + shape_.executors - 1) *
                     (kForward + kBackward));
}

TEST_P(EveryInterleaved, NoExecutorDoesTwoThingsAtOnce) {
  Costs costs;
  for (int block = 1; block <= shape_.blocks(); ++block)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1.0 + block}, {Op::backward, 7.0 - block}}});
  std::vector<double> free_since(static_cast<std::size_t>(shape_.executors));
  for (const TimedAction& timed : simulate(
           plan_, costs, capacities_of(plan_, 0), sample_grant(plan_, 3))) {
    double& free = free_since[static_cast<std::size_t>(
        plan_.blocks.front().placement.executor_of(timed.seat))];
    EXPECT_GE(timed.start, free);
    free = timed.end;
  }
}

TEST(Interleaved, AShortTurnThatDoesNotFitGoesBatchByBatch) {
  ScheduleOptions options = options_of({2, 2, 2});
  options.micro_batches.turns_per_epoch = 2;
  options.micro_batches.last_samples = 2;
  const RunPlan plan = plan_of(4, options);
  EXPECT_EQ(
      text_of(executor_actions(plan, 0, {.first_turn = 1, .end_turn = 2})),
      "1F2 3F2 3B2 3U2 1B2 1U2");
  EXPECT_NO_THROW(simulate(plan, {}, capacities_of(plan, 0),
                           Grant{.end_turn = 4, .drain = true}));
}

void expect_refused(const Shape& shape, int blocks, const std::string& remedy) {
  try {
    plan_of(blocks, options_of(shape));
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(remedy), std::string::npos)
        << error.what();
  }
}

TEST(Interleaved, RefusesWhatDoesNotDivide) {
  expect_refused({2, 2, 4}, 3, "doesn't divide 3 blocks");
  expect_refused({2, 2, 3}, 4, "no multiple of 2");
  expect_refused({0, 2, 4}, 4, "set pipeline.executors");
}

TEST(Interleaved, RefusesDelays) {
  const ScheduleRow& row = find_row(schedule_rows(), "interleaved", "order");
  EXPECT_THROW(row.make({{.delay = 1}, {}, {}}, {.executors = 1}), UserError);
}

}  // namespace sluice::interleaved_test
