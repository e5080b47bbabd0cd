// Plans of blocks that all use the weights with which the lowest one of their
// segment forwards a batch.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/plan.h"

namespace sluice::weights_of_entry_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Traits kSynced = {
    .delay = 1, .weights = {.view = "vertical_sync", .of_entry = true}};
constexpr Traits kStashed = {.delay = 1};
constexpr Traits kBackprop = {};
constexpr Traits kLocal = {.cut = true, .from_above = false};

std::vector<std::string> views_of(const std::vector<Traits>& boundaries) {
  std::vector<std::string> views;
  for (const BlockPlan& block : make_run_plan(boundaries, false).blocks)
    views.emplace_back(block.sees_old_weights() ? block.weights.view
                                                : "latest");
  return views;
}

TEST(WeightsOfEntry, AreThoseOfTheHighestBlockOfASegmentToo) {
  EXPECT_THAT(views_of({kSynced, kSynced}),
              testing::Each(std::string("vertical_sync")));
  EXPECT_THAT(views_of({kStashed, kStashed}),
              testing::ElementsAre("stash", "stash", "latest"));
}

TEST(WeightsOfEntry, EndAtACut) {
  EXPECT_THAT(views_of({kLocal, kSynced, kLocal}),
              testing::ElementsAre("latest", "vertical_sync", "vertical_sync",
                                   "latest"));
  EXPECT_THAT(views_of({kSynced, kLocal, kStashed}),
              testing::ElementsAre("vertical_sync", "vertical_sync", "stash",
                                   "latest"));
}

TEST(WeightsOfEntry, AreThoseOfAllBoundariesOfASegmentOrOfNone) {
  const std::vector<Traits> others = {kStashed, kBackprop};
  for (const Traits& other : others) {
    EXPECT_THAT(
        [&] {
          make_run_plan({kSynced, other}, false);
        },
        ThrowsMessage<UserError>(HasSubstr("boundaries 1 and 2")));
    EXPECT_THAT(
        [&] {
          make_run_plan({kSynced, other, kSynced}, false);
        },
        ThrowsMessage<UserError>(HasSubstr("'vertical_sync'")));
  }
}

TEST(WeightsOfEntry, WantBlocksThatWaitForThoseBelow) {
  Traits unlocked = kSynced;
  unlocked.upper = UpperEnd::from_data;
  EXPECT_THAT([&] { make_run_plan({unlocked}, false); },
              ThrowsMessage<UserError>(HasSubstr("unlock")));
  EXPECT_THAT([&] { make_free_plan({kSynced}); },
              ThrowsMessage<UserError>(HasSubstr("'lockstep'")));
}

}  // namespace sluice::weights_of_entry_test
