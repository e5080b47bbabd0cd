// Which cells a report draws as lines along an axis.
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/charts/axis_lines.h"

namespace sluice::report::report_axes_test {

using testing::ElementsAre;
using testing::IsEmpty;

/// Cells with what they ended with.
class ReportAxes : public testing::Test {
 protected:
  ReportAxes() {
    study_.axes = {"blocks", "boundary", "optimizer.lr"};
    accuracy_.figure.higher_is_better = true;
  }

  void add(const std::string& blocks, const std::string& boundary,
           const std::string& lr, double accuracy) {
    std::string label = "blocks=" + blocks;
    if (!boundary.empty()) label += ", " + boundary;
    study_.cells.push_back({.label = label + ", lr=" + lr,
                            .method = boundary,
                            .values = {blocks, boundary, lr}});
    accuracy_.spreads.push_back({.mean = accuracy, .n = 1});
  }
  std::vector<AxisLine> lines(std::size_t axis) const {
    return lines_along(study_, accuracy_, axis);
  }
  static std::vector<std::size_t> cells_of(const AxisLine& line) {
    std::vector<std::size_t> cells;
    for (const AxisPoint& point : line.points) cells.push_back(point.cell);
    return cells;
  }

  Study study_;
  Column accuracy_;
};

TEST_F(ReportAxes, OneBlockWithoutABoundaryIsOnTheLineOfEveryMethod) {
  add("1", "", "0.1", 0.9);
  add("2", "DDG", "0.1", 0.8);
  add("2", "FR", "0.1", 0.7);
  add("4", "DDG", "0.1", 0.6);
  const auto found = lines(0);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].label, "DDG, lr=0.1");
  EXPECT_THAT(cells_of(found[0]), ElementsAre(0, 1, 3));
  EXPECT_EQ(found[0].points[2].x, 4);
  EXPECT_THAT(cells_of(found[1]), ElementsAre(0, 2));
}

TEST_F(ReportAxes, BestOfSeveralLearningRatesIsDrawn) {
  add("1", "", "0.1", 0.5);
  add("1", "", "0.2", 0.9);
  add("2", "DDG", "0.1", 0.8);
  add("2", "DDG", "0.2", 0.7);
  const auto by_blocks = lines(0);
  ASSERT_EQ(by_blocks.size(), 1U);
  EXPECT_EQ(by_blocks[0].label, "DDG");
  EXPECT_THAT(cells_of(by_blocks[0]), ElementsAre(1, 2));
  accuracy_.figure.higher_is_better = false;
  EXPECT_THAT(cells_of(lines(0)[0]), ElementsAre(0, 3)) << "as a loss";
}

TEST_F(ReportAxes, AlongLearningRatesEachNumberOfBlocksHasItsLine) {
  add("1", "", "0.1", 0.5);
  add("1", "", "0.2", 0.9);
  add("2", "DDG", "0.1", 0.8);
  add("2", "DDG", "0.2", 0.7);
  const auto found = lines(2);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].label, "blocks=1");
  EXPECT_THAT(cells_of(found[0]), ElementsAre(0, 1));
  EXPECT_EQ(found[1].label, "blocks=2, DDG");
  EXPECT_THAT(cells_of(found[1]), ElementsAre(2, 3));
}

TEST_F(ReportAxes, BestRateOfEachMethodAndNumberOfBlocksIsChosen) {
  accuracy_.figure.name = "test_accuracy";
  add("2", "DDG", "0.1", 0.8);
  add("2", "DDG", "0.2", 0.9);
  add("2", "FR", "0.1", 0.7);
  add("4", "DDG", "0.1", 0.6);
  add("4", "DDG", "0.2", std::numeric_limits<double>::quiet_NaN());
  const auto best = best_cells(study_, {accuracy_});
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].cell, 1U);
  EXPECT_EQ(best[0].line, "DDG");
  EXPECT_EQ(best[0].blocks, 2U);
  EXPECT_EQ(best[0].of, 2U);
  EXPECT_EQ(best[1].cell, 2U);
  EXPECT_EQ(best[1].line, "FR");
  EXPECT_EQ(best[2].cell, 3U) << "not the one that diverged";
  EXPECT_EQ(best[2].blocks, 4U);
  accuracy_.figure.higher_is_better = false;
  EXPECT_EQ(best_cells(study_, {accuracy_})[0].cell, 0U);
}

TEST_F(ReportAxes, WhatIsTrainedIsNotTuned) {
  accuracy_.figure.name = "test_accuracy";
  add("2", "DDG", "16", 0.8);
  add("2", "DDG", "32", 0.9);
  EXPECT_EQ(best_cells(study_, {accuracy_}).size(), 1U);
  study_.axes[2] = "model.width";
  EXPECT_EQ(best_cells(study_, {accuracy_}).size(), 2U);
}

TEST_F(ReportAxes, WhatHasNoResultIsNoPoint) {
  add("1", "", "0.1", 0.5);
  add("2", "DDG", "0.1", std::numeric_limits<double>::quiet_NaN());
  add("4", "DDG", "0.1", 0.4);
  EXPECT_THAT(cells_of(lines(0)[0]), ElementsAre(0, 2));
}

TEST_F(ReportAxes, OnlyNumbersThatDifferMakeAnAxis) {
  add("1", "", "0.1", 0.5);
  add("2", "DDG", "0.1", 0.4);
  EXPECT_THAT(number_axes(study_), ElementsAre(0));
  study_.cells[1].values[0] = "two";
  EXPECT_THAT(number_axes(study_), IsEmpty());
}

}  // namespace sluice::report::report_axes_test
