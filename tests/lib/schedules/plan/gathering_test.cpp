#include "lib/schedules/plan/gathering.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::gathering_test {

using testing::ElementsAre;

TEST(Gathering, IsCompleteWithItsQuorumUnlessThereIsAGrace) {
  for (const double grace : {0.0, 1.0}) {
    Gathering all({.least = 2, .grace = grace}, 3);
    EXPECT_TRUE(all.bring(3, 0));
    EXPECT_FALSE(all.has_quorum());
    EXPECT_TRUE(all.bring(1, 0));
    EXPECT_TRUE(all.has_quorum());
    EXPECT_EQ(all.is_complete(), grace == 0);
    EXPECT_TRUE(all.bring(2, 0));
    EXPECT_TRUE(all.is_complete()) << "there is nobody to wait for";
    EXPECT_THAT(all.merge(), ElementsAre(1, 2, 3));
    EXPECT_FALSE(all.has_quorum());
  }
}

TEST(Gathering, DropsWhatIsOfATurnThatWasMergedWhereItDoes) {
  for (const bool drops : {false, true}) {
    Gathering all({.least = 1, .drops_late = drops}, 2);
    EXPECT_TRUE(all.bring(1, 4));
    all.merge();
    EXPECT_EQ(all.merged_turn(), 4);
    EXPECT_EQ(all.bring(2, 4), !drops);
    EXPECT_EQ(all.waits(2), !drops);
    EXPECT_TRUE(all.bring(1, 5));
  }
}

TEST(Gathering, WaitsOnlyForThoseWhoStillBringSomething) {
  Gathering all({.least = 3}, 3);
  all.bring(1, 0);
  all.rest(2);
  EXPECT_FALSE(all.has_quorum());
  all.rest(3);
  EXPECT_TRUE(all.is_complete());
  EXPECT_THAT(all.merge(), ElementsAre(1));
  all.rest(1);  // now all rest, and go on
  all.bring(1, 1);
  EXPECT_FALSE(all.has_quorum());
}

TEST(Gathering, GoesOnWithoutThoseWhoAreLost) {
  const Quorum two{.least = 2};
  EXPECT_TRUE(two.survives_loss(3));
  EXPECT_FALSE(two.survives_loss(2));
  EXPECT_TRUE(Quorum{}.survives_loss(2)) << "nobody waits";
  Gathering all(two, 3);
  all.bring(2, 0);
  all.lose(2);
  all.bring(1, 0);
  EXPECT_FALSE(all.is_complete()) << "it doesn't wait any more";
  all.rest(3);
  EXPECT_TRUE(all.is_complete());
  EXPECT_THAT(all.merge(), ElementsAre(1));
  all.rest(1);
  all.bring(3, 1);
  EXPECT_FALSE(all.is_complete()) << "both go on";
}

}  // namespace sluice::gathering_test
