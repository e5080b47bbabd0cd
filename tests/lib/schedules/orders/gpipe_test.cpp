#include <string>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::gpipe_test {

constexpr MicroBatches kFour{.count = 4, .samples = 8};

RunPlan plan_of(const char* order, std::size_t boundaries) {
  return find_row(schedule_rows(), order, "order")
      .make(std::vector<Traits>(boundaries), {.micro_batches = kFour});
}

double seconds_of_a_turn(const RunPlan& plan) {
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        plan.blocks.size(),
                        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  return simulate(plan, costs, capacities_of(plan, 0), Grant{.end_turn = 1})
      .back()
      .end;
}

TEST(GPipe, ForwardsAllBatchesBeforeItGoesBack) {
  std::string text;
  for (const Action& action :
       actions_of(plan_of("gpipe", 1).blocks[0], {.end_turn = 1}))
    text += to_text(action) + " ";
  EXPECT_EQ(text, "F0 F1 F2 F3 B0 B1 B2 B3 U3 ");
}

TEST(GPipe, TakesTheTimeOfItsFormula) {
  for (const std::size_t blocks : {1, 2, 3, 4})
    EXPECT_EQ(seconds_of_a_turn(plan_of("gpipe", blocks - 1)),
              (4.0 + static_cast<double>(blocks) - 1) * 3)
        << "(M + K - 1)(F + B), K = " << blocks;
  EXPECT_EQ(seconds_of_a_turn(plan_of("turns", 3)), 48) << "blocks take turns";
}

TEST(GPipe, IsRefusedWhereABoundaryDelays) {
  EXPECT_THROW(
      find_row(schedule_rows(), "gpipe", "order").make({{.delay = 1}}, {}),
      UserError);
}

}  // namespace sluice::gpipe_test
