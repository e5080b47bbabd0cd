// Issue 18, item 7: a replay buffer takes more while it has room, whatever the
// grant of the block above says.
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/replay_buffer.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::buffer_room_test {

RunPlan plan_with(const ReplayOptions& options) {
  return make_free_plan({{.cut = true,
                          .from_above = false,
                          .own = true,
                          .inbox = {.buffer = options}}});
}

Costs costs_with(double first, double second) {
  return {.blocks = {{.seconds = {{Op::forward, 0.01}}, .slowness = first},
                     {.seconds = {{Op::forward, 0.01}}, .slowness = second}}};
}

/// What block 2 does in turns that come in two grants; each block gets its
/// next one when it is done with the one before, as from the virtual engine.
std::vector<Action> upper_actions(const ReplayOptions& options,
                                  const Costs& costs) {
  const RunPlan plan = plan_with(options);
  Simulation simulation({plan}, costs, capacities_of(plan, 1));
  const std::vector<Grant> grants = {{.end_turn = 3, .checkpoint = true},
                                     {.first_turn = 3,
                                      .end_turn = 6,
                                      .evaluation_batches = 1,
                                      .checkpoint = true,
                                      .finish = true}};
  std::vector<std::size_t> given(2);
  const auto refill = [&] {
    for (int block = 1; block <= 2; ++block) {
      std::size_t& next = by_block(given, block);
      while (simulation.idle(block) && next < grants.size())
        simulation.give(block, grants[next++]);
    }
  };
  std::vector<Action> actions;
  refill();
  while (const auto timed = simulation.next()) {
    if (timed->seat == 2) actions.push_back(timed->action);
    refill();
  }
  EXPECT_TRUE(simulation.finished()) << simulation.stuck();
  return actions;
}

class Room : public testing::TestWithParam<
                 std::tuple<ReplayOrder, std::int64_t, std::int64_t, double>> {
};

TEST_P(Room, IsThereForAllThatIsWrittenInTwoGrants) {
  const auto& [order, batches, max_reuse, slow] = GetParam();
  const ReplayOptions options{
      .batches = batches, .order = order, .max_reuse = max_reuse};
  for (const bool is_lower_slow : {false, true}) {
    const Costs costs =
        is_lower_slow ? costs_with(slow, 1) : costs_with(1, slow);
    ReplayBuffer buffer(options);
    int reads = 0;
    for (const Action& action : upper_actions(options, costs)) {
      if (action.op != Op::forward) continue;
      while (buffer.written() < action.arrived) {
        EXPECT_TRUE(buffer.has_room()) << to_text(action);
        buffer.write({.batch = buffer.written()});
      }
      EXPECT_TRUE(buffer.read()) << to_text(action);
      ++reads;
    }
    EXPECT_EQ(reads, 6);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Buffers, Room,
    testing::Combine(testing::Values(ReplayOrder::priority_lifo,
                                     ReplayOrder::fifo, ReplayOrder::reservoir),
                     testing::Values(1, 2, 3), testing::Values(0, 1, 3),
                     testing::Values(1.7, 2.3, 5.0)));

}  // namespace sluice::buffer_room_test
