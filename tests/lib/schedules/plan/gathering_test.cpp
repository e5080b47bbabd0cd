#include "lib/schedules/plan/gathering.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::gathering_test {

using testing::ElementsAre;

TEST(Gathering, IsCompleteWithItsQuorumUnlessThereIsAGrace) {
  for (const double grace : {0.0, 1.0}) {
    Gathering all({.least = 2, .grace = grace}, 3);
    EXPECT_TRUE(all.bring(3, 0, 0));
    EXPECT_FALSE(all.has_quorum());
    EXPECT_TRUE(all.bring(1, 0, 0));
    EXPECT_TRUE(all.has_quorum());
    EXPECT_EQ(all.is_complete(), grace == 0);
    EXPECT_TRUE(all.bring(2, 0, 0));
    EXPECT_TRUE(all.is_complete()) << "there is nobody to wait for";
    EXPECT_THAT(all.merge(0), ElementsAre(1, 2, 3));
    EXPECT_FALSE(all.has_quorum());
  }
}

TEST(Gathering, DropsWhatIsOfATurnThatWasMergedWhereItDoes) {
  for (const bool drops : {false, true}) {
    Gathering all({.least = 1, .drops_late = drops}, 2);
    EXPECT_TRUE(all.bring(1, 4, 0));
    all.merge(0);
    EXPECT_EQ(all.merged_turn(), 4);
    EXPECT_EQ(all.bring(2, 4, 0), !drops);
    EXPECT_EQ(all.waits(2), !drops);
    EXPECT_TRUE(all.bring(1, 5, 0));
  }
}

TEST(Gathering, WaitsOnlyForThoseWhoStillBringSomething) {
  Gathering all({.least = 3}, 3);
  all.bring(1, 0, 0);
  all.rest(2, 0);
  EXPECT_FALSE(all.has_quorum());
  all.rest(3, 0);
  EXPECT_TRUE(all.is_complete());
  EXPECT_THAT(all.merge(0), ElementsAre(1));
  all.rest(1, 0);  // now all rest, and go on
  all.bring(1, 1, 0);
  EXPECT_FALSE(all.has_quorum());
}

TEST(Gathering, GoesOnWithoutThoseWhoAreLost) {
  const Quorum two{.least = 2};
  EXPECT_TRUE(two.survives_loss(3));
  EXPECT_FALSE(two.survives_loss(2));
  EXPECT_TRUE(Quorum{}.survives_loss(2)) << "nobody waits";
  Gathering all(two, 3);
  all.bring(2, 0, 0);
  all.lose(2, 0);
  all.bring(1, 0, 0);
  EXPECT_FALSE(all.is_complete()) << "it doesn't wait any more";
  all.rest(3, 0);
  EXPECT_TRUE(all.is_complete());
  EXPECT_THAT(all.merge(0), ElementsAre(1));
  all.rest(1, 0);
  all.bring(3, 1, 0);
  EXPECT_FALSE(all.is_complete()) << "both go on";
}

TEST(Periods, MakeAWaitOfTheirMedianAndSpread) {
  Periods periods(8);
  for (const double each : {10.0, 20.0, 30.0}) periods.add(each);
  EXPECT_TRUE(std::isinf(periods.awaited())) << "too few";
  periods.add(40);
  EXPECT_NEAR(periods.awaited(), 30 + 3 * 1.4826 * 10, 1e-12);
  for (int i = 0; i < 7; ++i) periods.add(20);
  EXPECT_NEAR(periods.awaited(), 20 * 1.15, 1e-12) << "the last ones count";
  for (int i = 0; i < 3; ++i) periods.add(1000);
  EXPECT_NEAR(periods.awaited(), 20 * 1.15, 1e-12) << "a few slow ones don't";
}

/// Three replicas that come again so long after a merge, at a centre whose
/// grace follows them.
class Arrivals {
 public:
  /// Returns how many of so many merges were without the last replica.
  int merges_without(const std::vector<double>& periods, int merges) {
    int without = 0;
    for (int i = 0; i < merges; ++i) {
      while (!all_.is_complete() && bring_next(periods)) {
      }
      const auto due = all_.due();
      if (!all_.is_complete() && due) now_ = std::max(now_, *due);
      if (!all_.waits(3)) ++without;
      for (const int member : all_.merge(now_)) since_.at(member) = now_;
    }
    return without;
  }

 private:
  /// The next replica comes, unless the grace is over before that.
  bool bring_next(const std::vector<double>& periods) {
    int next = 0;
    double first = std::numeric_limits<double>::infinity();
    for (int member = 1; member <= 3; ++member) {
      const double comes = since_.at(member) + periods.at(member - 1);
      if (all_.waits(member) || comes >= first) continue;
      first = comes;
      next = member;
    }
    const auto due = all_.due();
    if (next == 0 || (due && *due < first)) return false;
    now_ = std::max(now_, first);
    all_.bring(next, 0, now_);
    return true;
  }

  Gathering all_{{.least = 2, .follows_arrivals = true}, 3};
  std::map<int, double> since_ = {{1, 0}, {2, 0}, {3, 0}};
  double now_ = 0;
};

TEST(Gathering, WaitsForAReplicaThatIsALittleSlowerAndNotForOneFarBehind) {
  for (const auto& [slowest, without] :
       {std::pair{10.0, 0}, std::pair{11.0, 0}, std::pair{35.0, 15}}) {
    Arrivals arrivals;
    arrivals.merges_without({10, 10, slowest}, 40);
    EXPECT_EQ(arrivals.merges_without({10, 10, slowest}, 20), without)
        << slowest;
  }
}

TEST(Gathering, WaitsAgainWhenAllAreSlower) {
  Arrivals arrivals;
  arrivals.merges_without({10, 10, 10}, 40);
  arrivals.merges_without({30, 31, 32}, 40);
  EXPECT_EQ(arrivals.merges_without({30, 31, 32}, 20), 0);
}

}  // namespace sluice::gathering_test
