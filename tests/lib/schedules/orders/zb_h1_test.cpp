#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/lib/schedules/pipeline_plans.h"

namespace sluice::zb_h1_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ZeroBubbleH1, FillsTheWaitWithGradientsOfWeights) {
  const RunPlan plan = pipeline_plan("zb-h1", {{}, {}}, 4);
  EXPECT_EQ(first_turn_of(plan, 3), "F0 D0 F1 D1 F2 D2 W0 F3 D3 W1 W2 W3 U3");
  EXPECT_EQ(first_turn_of(plan, 2), "F0 F1 D0 F2 D1 W0 F3 D2 W1 D3 W2 W3 U3");
}

TEST(ZeroBubbleH1, SplitsNoBackwardFromWhichNobodyBelowWaits) {
  const RunPlan plan = pipeline_plan("zb-h1", {{}, {}}, 4);
  EXPECT_EQ(first_turn_of(plan, 1), "F0 F1 F2 B0 F3 B1 B2 B3 U3");
  const Traits cut{.cut = true, .from_above = false};
  const RunPlan two = pipeline_plan("zb-h1", {{}, cut, {}}, 2);
  EXPECT_EQ(first_turn_of(two, 3), "F0 F1 B0 B1 U1") << "it stands on a cut";
  EXPECT_EQ(first_turn_of(two, 4), "F0 D0 F1 D1 W0 W1 U1");
}

TEST(ZeroBubbleH1, ZeroBubbleH1OfAShortTurnWithTooFewBatchesIs1F1B) {
  const MicroBatches cut{
      .count = 4, .samples = 8, .turns_per_epoch = 2, .last_samples = 3};
  const Grant second{.first_turn = 1, .end_turn = 2};
  const RunPlan plan = pipeline_plan("zb-h1", {{}, {}}, cut);
  const RunPlan same = pipeline_plan("1f1b", {{}, {}}, cut);
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_EQ(to_text(actions_of(plan.blocks[k], second)),
              to_text(actions_of(same.blocks[k], second)));
}

TEST(ZeroBubbleH1, WantsAsManyBatchesAsBlocks) {
  EXPECT_NO_THROW(pipeline_plan("zb-h1", {{}, {}}, 3));
  EXPECT_THAT(
      [] {
        pipeline_plan("zb-h1", {{}, {}}, 2);
      },
      ThrowsMessage<UserError>(
          HasSubstr("blocks 1 to 3 are 3, and a turn has 2 batches")));
}

TEST(ZeroBubbleH1, IsRefusedWhereTheNormIsOfTheWholeModel) {
  const auto made = [](const std::vector<Traits>& boundaries) {
    find_row(schedule_rows(), "zb-h1", "order")
        .make(boundaries, {.model_norm = true});
  };
  EXPECT_THAT([&] { made({{}}); },
              ThrowsMessage<UserError>(HasSubstr("clip.scope = 'block'")));
  EXPECT_NO_THROW(made({}));
}

TEST(ZeroBubbleH1, IsRefusedWhereABoundaryDelays) {
  EXPECT_THAT(
      [] { pipeline_plan("zb-h1", {{.delay = 1}}, 1); },
      ThrowsMessage<UserError>(HasSubstr("order = 'zb-h1' goes without")));
}

}  // namespace sluice::zb_h1_test
