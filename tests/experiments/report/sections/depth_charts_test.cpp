// How true the gradients of each layer are, in a report.
#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/sections/sections.h"
#include "experiments/report/study/run_record.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::depth_charts_test {

using testing::ElementsAre;

class DepthCharts : public ReportFolder {
 protected:
  static std::string line(int turn, int layer, double cosine) {
    const std::string place = R"({"kind":"layer_probe","turn":)" +
                              std::to_string(turn) + R"(,"block":1,"batch":)" +
                              std::to_string(turn) + R"(,"layer":)" +
                              std::to_string(layer);
    return place + R"(,"cosine":)" + std::to_string(cosine) +
           R"(,"norm_ratio":4.0,"sign_agreement":1.0,"time":1.0})" + "\n";
  }
  ReportInput read() const {
    ReportInput input{.study = read_study({folder_})};
    input.styles = styles_of(input.study);
    return input;
  }
};

TEST_F(DepthCharts, HaveTheMeanOfEachLayerOverTurnsThenSeeds) {
  make_run("one", {.seed = 1,
                   .more_metrics = line(0, 0, 0.5) + line(0, 2, 0.25) +
                                   line(9, 0, 1.0) + line(9, 2, 0.25)});
  make_run("two",
           {.seed = 2, .more_metrics = line(0, 0, 0.25) + line(0, 2, 0.25)});
  const std::vector<Chart> charts = depth_charts(read());
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[0].title, "cosine, by layer");
  EXPECT_THAT(charts[0].x_ticks, ElementsAre(0, 2));
  ASSERT_EQ(charts[0].items.size(), 1U);
  const std::vector<ChartPoint>& points = charts[0].items[0].points;
  ASSERT_EQ(points.size(), 2U);
  // Mean of 0.75 and 0.25.
  EXPECT_EQ(points[0].x, 0);
  EXPECT_DOUBLE_EQ(points[0].y, 0.5);
  EXPECT_NEAR(points[0].y_off, 0.3535534, 1e-6);
  EXPECT_EQ(points[1].x, 2);
  EXPECT_DOUBLE_EQ(points[1].y, 0.25);
  EXPECT_DOUBLE_EQ(charts[1].items[0].points[0].y, 4);
}

TEST_F(DepthCharts, AreThereWhereLayersWereCompared) {
  make_run("run", {});
  EXPECT_TRUE(depth_charts(read()).empty());
  EXPECT_EQ(truth_by_layer(read()), "");
}

TEST_F(DepthCharts, HaveLayersAsFarApartAsTheyAre) {
  std::string lines;
  for (int layer = 1; layer <= 9; layer += 4) lines += line(0, layer, 0.5);
  make_run("run", {.more_metrics = lines});
  const std::vector<Chart> charts = depth_charts(read());
  ASSERT_EQ(charts.size(), 3U);
  const auto is_log = [](const Chart& chart) {
    const std::string drawn = draw(chart);
    const auto at = drawn.find("data-x=\"");
    EXPECT_NE(at, drawn.npos);
    double low = 0;
    double high = 0;
    int log = -1;
    EXPECT_EQ(std::sscanf(drawn.c_str() + at, "data-x=\"%lf %lf %d", &low,
                          &high, &log),
              3);
    return log == 1;
  };
  EXPECT_FALSE(is_log(charts[0]));
  Chart uneven = charts[0];
  uneven.has_even_ticks = false;
  EXPECT_TRUE(is_log(uneven));
}

}  // namespace sluice::report::depth_charts_test
