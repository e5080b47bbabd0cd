// Means, deviations, who wins, what is on the front: against numbers that were
// worked out by hand.
#include "experiments/report/study/statistics.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/charts/bands.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/study/price.h"
#include "experiments/report/study/scale.h"

namespace sluice::report::report_statistics_test {

using testing::ElementsAre;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Spread spread(const std::vector<double>& values) {
  return spread_of(values);
}

TEST(ReportStatistics, TheDeviationIsThatOfASample) {
  // Mean 5; squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32; 32 / 7.
  const Spread of_eight = spread({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(of_eight.mean, 5);
  EXPECT_DOUBLE_EQ(of_eight.std, std::sqrt(32.0 / 7));
  EXPECT_EQ(of_eight.n, 8);
  const Spread of_two = spread({1, 3});
  EXPECT_DOUBLE_EQ(of_two.mean, 2);
  EXPECT_DOUBLE_EQ(of_two.std, std::sqrt(2.0));
}

TEST(ReportStatistics, OneRunHasNoDeviationAndNoneHasNothing) {
  EXPECT_DOUBLE_EQ(spread({3}).mean, 3);
  EXPECT_TRUE(std::isnan(spread({3}).std));
  EXPECT_TRUE(std::isnan(spread({}).mean));
  EXPECT_EQ(text_of(spread({3}), 2), "3.00 (1)");
  EXPECT_EQ(text_of(spread({}), 2), "-");
  EXPECT_EQ(text_of(spread({1, 3}), 2), "2.00 ± 1.41 (2)");
}

TEST(ReportStatistics, AWinnerIsAwayFromEveryOtherByMoreThanOneDeviation) {
  const auto winner = [](std::vector<Competitor> all, bool higher) {
    return clear_winner(all, higher);
  };
  const Spread high{.mean = 90, .std = 1, .n = 3};
  const Spread near{.mean = 89.2, .std = 0.1, .n = 3};
  const Spread far{.mean = 88, .std = 0.1, .n = 3};
  const Spread wide{.mean = 88, .std = 3, .n = 3};
  EXPECT_EQ(winner({{far}, {high}}, true), 1);
  EXPECT_EQ(winner({{far}, {high}}, false), 0);
  EXPECT_EQ(winner({{near}, {high}}, true), std::nullopt)
      << "inside the deviation of the better one";
  EXPECT_EQ(winner({{high}, {wide}}, true), std::nullopt)
      << "inside the deviation of the other one";
  EXPECT_EQ(winner({{far}, {high}, {near}}, true), std::nullopt)
      << "the second of three is near";
}

TEST(ReportStatistics, NobodyWinsAloneOrWithoutADeviation) {
  const Spread good{.mean = 90, .std = 1, .n = 3};
  const Spread bad{.mean = 50, .std = 1, .n = 3};
  const Spread once{.mean = 10, .std = kNaN, .n = 1};
  const Spread diverged{.mean = kNaN, .std = kNaN, .n = 3};
  EXPECT_EQ(clear_winner({}, true), std::nullopt);
  const std::vector<Competitor> alone = {{good}, {Spread{}}};
  EXPECT_EQ(clear_winner(alone, true), std::nullopt);
  const std::vector<Competitor> unknown = {{good}, {once}};
  EXPECT_EQ(clear_winner(unknown, true), std::nullopt);
  const std::vector<Competitor> unlucky = {{good, false}, {bad}};
  EXPECT_EQ(clear_winner(unlucky, true), std::nullopt);
  const std::vector<Competitor> broken = {{diverged}, {good}};
  EXPECT_EQ(clear_winner(broken, true), 1);
  const std::vector<Competitor> equal = {{good}, {good}};
  EXPECT_EQ(clear_winner(equal, true), std::nullopt);
}

TEST(ReportStatistics, DifferencesArePairedBySeed) {
  // Differences of -1, -2 and -3: a mean of -2, a standard deviation of 1.
  const Difference paired = paired_difference(
      {{1, 10}, {2, 20}, {3, 30}, {7, 0}}, {{1, 11}, {2, 22}, {3, 33}, {9, 0}});
  EXPECT_EQ(paired.n, 3);
  EXPECT_DOUBLE_EQ(paired.mean, -2);
  EXPECT_NEAR(paired.half, 4.303 / std::sqrt(3.0), 1e-9);
}

TEST(ReportStatistics, AnIntervalTakesTwoSeedsThatBothHave) {
  const Difference one = paired_difference({{1, 10}, {2, 20}}, {{2, 19}});
  EXPECT_EQ(one.n, 1);
  EXPECT_DOUBLE_EQ(one.mean, 1);
  EXPECT_TRUE(std::isnan(one.half));
  EXPECT_EQ(paired_difference({{1, 10}}, {{2, 19}}).n, 0);
}

TEST(ReportStatistics, IntervalsOfManySeedsComeNearTheNormalOne) {
  SeedFigures a;
  SeedFigures b;
  for (int seed = 0; seed < 31; ++seed) {
    a[seed] = seed % 2;  // differences of 0 and 1
    b[seed] = 0;
  }
  const Difference paired = paired_difference(a, b);
  const double deviation = std::sqrt(paired.mean * (1 - paired.mean) * 31 / 30);
  EXPECT_NEAR(paired.half, 2.0423 * deviation / std::sqrt(31.0), 1e-4);
}

TEST(ReportStatistics, TheFrontHoldsWhatNothingElseBeats) {
  const std::vector<Objectives> all = {{1, 5}, {2, 2}, {5, 1},
                                       {3, 3}, {2, 2}, {kNaN, 0}};
  EXPECT_THAT(pareto_front(all),
              ElementsAre(true, true, true, false, true, false));
}

TEST(ReportStatistics, BandsAreOverRunsTurnByTurn) {
  const RunSeries first = {{.turn = 0, .time = 1, .value = 1},
                           {.turn = 10, .time = 2, .value = 3}};
  const RunSeries second = {{.turn = 0, .time = 3, .value = 5},
                            {.turn = 10, .time = 4, .value = kNaN}};
  const auto band = band_of({&first, &second}, 0);
  ASSERT_EQ(band.size(), 2U);
  EXPECT_DOUBLE_EQ(band[0].spread.mean, 3);
  EXPECT_DOUBLE_EQ(band[0].spread.std, std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(band[0].time, 2);
  EXPECT_EQ(band[1].spread.n, 1) << "what is no number is left out";
}

TEST(ReportStatistics, LongCurvesAreMeansOfSpans) {
  RunSeries run;
  for (int turn = 0; turn < 100; ++turn)
    run.push_back({.turn = turn, .value = static_cast<double>(turn)});
  const auto band = band_of({&run}, 10);
  ASSERT_EQ(band.size(), 10U);
  EXPECT_DOUBLE_EQ(band[0].spread.mean, 4.5);
  EXPECT_DOUBLE_EQ(band[9].turn, 94.5);
}

TEST(ReportStatistics, TicksAreRoundFewShortAndDifferent) {
  for (const double low : {-3.0, 0.0, 0.9, 17.0, 1e5})
    for (const double span : {1e-3, 0.07, 1.0, 6.0, 35.0, 2e4, 7e9}) {
      const auto ticks = linear_ticks(low, low + span, 5);
      std::set<std::string> texts;
      for (const Tick& tick : ticks) {
        texts.insert(tick.text);
        EXPECT_GE(tick.at, low - 1e-6 * span);
        EXPECT_LE(tick.at, low + span * (1 + 1e-6));
      }
      EXPECT_EQ(texts.size(), ticks.size()) << low << " " << span;
      EXPECT_GE(ticks.size(), 2U) << low << " " << span;
      EXPECT_LE(ticks.size(), 7U) << low << " " << span;
    }
  EXPECT_EQ(linear_ticks(0, 60000, 5).back().text, "60k");
  EXPECT_EQ(linear_ticks(0, 1, 5)[1].text, "0.2");
  EXPECT_EQ(log_ticks(0.1, 10).size(), 7U);
}

TEST(ReportStatistics, ScalesKeepNumbersShort) {
  EXPECT_EQ(binary_scale(3 * 1024.0 * 1024).prefix, "Mi");
  EXPECT_EQ(decimal_scale(2e13).prefix, "T");
  EXPECT_EQ(decimal_scale(999).prefix, "");
}

TEST(ReportStatistics, WhatXmlMayNotHaveIsEscapedOrReplaced) {
  EXPECT_EQ(escaped("<a href=\"x\">&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escaped("±\t\n"), "±\t\n");
  EXPECT_EQ(escaped("a\x01"
                    "b\xFF"
                    "c\xC3"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD"
            "c\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xED\xA0\x80"),  // a surrogate
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xF0\x9F\x8C\x8A"), "\xF0\x9F\x8C\x8A");
}

}  // namespace sluice::report::report_statistics_test
