// What runs took to come to a loss, of runs that were not trained.
#include "experiments/report/study/target.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/sections/report.h"
#include "experiments/report/study/columns.h"
#include "experiments/report/study/study.h"
#include "lib/base/error.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::report_target_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::int64_t turn_at(const RunSeries& series, const char* target) {
  const auto found = first_at(series, target_from(target));
  return found ? found->turn : -1;
}

TEST(Target, IsReachedByTheFirstPointAtOrBelow) {
  const RunSeries losses = {{.turn = 1, .value = 3},
                            {.turn = 2, .value = 2},
                            {.turn = 3, .value = 2.5},
                            {.turn = 4, .value = 1}};
  EXPECT_EQ(turn_at(losses, "4"), 1);
  EXPECT_EQ(turn_at(losses, "2"), 2);
  EXPECT_EQ(turn_at(losses, "1.9"), 4);
  EXPECT_EQ(turn_at(losses, "0.9"), -1);
}

TEST(Target, IsReachedByTheFirstAccuracyAtOrAbove) {
  const RunSeries accuracies = {{.turn = 1, .value = 0.5},
                                {.turn = 2, .value = 0.97},
                                {.turn = 3, .value = 0.96}};
  EXPECT_EQ(turn_at(accuracies, "40%"), 1);
  EXPECT_EQ(turn_at(accuracies, "97 %"), 2);
  EXPECT_EQ(turn_at(accuracies, "97.5%"), -1);
}

TEST(Target, IsALossOrAnAccuracyInPercent) {
  for (const char* wrong :
       {"", "%", "fast", "0.5x", "nan", "0%", "101%", "-1%"})
    EXPECT_THAT([&] { target_from(wrong); },
                ThrowsMessage<UserError>(HasSubstr("such as 97%")))
        << wrong;
}

/// Evaluations of a run: at turn 10 a loss of 2 - accuracy / 2, and at turn 20,
/// its end, of 2 - accuracy.
class ReportTarget : public ReportFolder {
 protected:
  void make(const std::string& name, const std::string& method, double accuracy,
            int seed = 1) const {
    make_run(name, {.method = method,
                    .seed = seed,
                    .accuracy = accuracy,
                    .seconds = 10,
                    .virtual_seconds = 40,
                    .more_config = "batch_size = 32\n"});
  }
  Study read() const { return read_study({folder_}); }
  static std::vector<Column> columns_in(const Study& study,
                                        std::optional<Target> target) {
    const TurnWork work{.flops = 2e6, .sequential_flops = 1e6};
    return columns_of(
        study, std::vector<std::optional<TurnWork>>(study.cells.size(), work),
        false, target);
  }
  double mean(const char* name, const std::string& target) const {
    const std::vector<Column> columns = columns_in(read(), target_from(target));
    const Column* column = find_column(columns, name);
    return column == nullptr ? -1 : column->mean(0);
  }
};

TEST_F(ReportTarget, CountsUntilTheEvaluationThatCameToIt) {
  make("one", "backprop", 0.9);  // losses 1.55 and 1.1
  EXPECT_DOUBLE_EQ(mean("samples_to_target", "1.2"), 20 * 32);
  EXPECT_DOUBLE_EQ(mean("flops_to_target", "1.2"), 20 * 2e6);
  EXPECT_DOUBLE_EQ(mean("sequential_flops_to_target", "1.2"), 20 * 1e6);
  EXPECT_DOUBLE_EQ(mean("seconds_to_target", "1.2"), 10);
  EXPECT_DOUBLE_EQ(mean("virtual_seconds_to_target", "1.2"), 40);
  EXPECT_DOUBLE_EQ(mean("samples_to_target", "1.55"), 10 * 32);
  EXPECT_DOUBLE_EQ(mean("seconds_to_target", "1.55"), 5);
  EXPECT_DOUBLE_EQ(mean("virtual_seconds_to_target", "1.55"), 20);
  EXPECT_DOUBLE_EQ(mean("reached_target", "1.2"), 1);
}

TEST_F(ReportTarget, CountsUntilAnAccuracyToo) {
  make("one", "backprop", 0.9);  // accuracies 0.45 and 0.9
  EXPECT_DOUBLE_EQ(mean("samples_to_target", "90%"), 20 * 32);
  EXPECT_DOUBLE_EQ(mean("samples_to_target", "45%"), 10 * 32);
  EXPECT_DOUBLE_EQ(mean("reached_target", "91%"), 0);
}

TEST_F(ReportTarget, HasNoColumnsWhereNobodyAsks) {
  make("one", "backprop", 0.9);
  for (const Column& column : columns_in(read(), std::nullopt))
    EXPECT_THAT(column.figure.name, Not(HasSubstr("target")));
}

TEST_F(ReportTarget, ACellOfWhichARunNeverCameThereHasNoMean) {
  make("one", "backprop", 0.9, 1);
  make("two", "backprop", 0.5, 2);  // losses 1.75 and 1.5
  const Study study = read();
  ASSERT_EQ(study.cells.size(), 1U);
  const std::vector<Column> columns = columns_in(study, target_from("1.2"));
  const Column* seconds = find_column(columns, "seconds_to_target");
  EXPECT_EQ(seconds, nullptr) << "no cell has one";
  EXPECT_DOUBLE_EQ(find_column(columns, "reached_target")->mean(0), 0.5);
  make("three", "local_loss", 0.9);
  const Study both = read();
  const std::vector<Column> all = columns_in(both, target_from("1.2"));
  const Column* known = find_column(all, "seconds_to_target");
  ASSERT_NE(known, nullptr);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < both.cells.size(); ++i)
    texts.push_back(known->text(i));
  EXPECT_THAT(texts, testing::UnorderedElementsAre("never (1 of 2)",
                                                   HasSubstr("10.00 (1)")));
  EXPECT_DOUBLE_EQ(mean("seconds_to_target", "1.6"), 7.5) << "of 5 and 10 s";
}

TEST_F(ReportTarget, IsASectionOfThePageWithItsCharts) {
  make("one", "backprop", 0.9);
  make("two", "local_loss", 0.85);
  make("three", "delayed_gradient", 0.5);
  const auto written = [&](std::optional<Target> target) {
    return write_report(
        {.folders = {folder_},
         .target = target,
         .facts = [](const ConfigNode&) {
           return ConfigFacts{
               .work = TurnWork{.flops = 2e6, .sequential_flops = 1e6}};
         }});
  };
  const ReportFiles files = written(target_from("1.2"));
  EXPECT_THAT(slurp(files.page),
              AllOf(HasSubstr("id=\"target\""), HasSubstr("never<span"),
                    HasSubstr("Front of (computed to 1.2")));
  EXPECT_THAT(slurp(files.table), HasSubstr("samples_to_target_mean"));
  EXPECT_THAT(slurp(files.runs), HasSubstr("seconds_to_target"));
  for (const char* time : {"sequential_flops", "virtual_seconds"})
    EXPECT_TRUE(std::filesystem::exists(
        files.figures + "/" + time + "_to_target_against_flops_to_target.svg"))
        << time;
  EXPECT_THAT(slurp(written(std::nullopt).page),
              Not(HasSubstr("id=\"target\"")));
}

TEST(Chart, HasLogarithmicAxesWhereItIsToldTo) {
  Chart chart{.items = {{.points = {{.x = 1, .y = 1},
                                    {.x = 10, .y = 10},
                                    {.x = 100, .y = 100}}}},
              .is_scatter = true};
  EXPECT_THAT(draw(chart), HasSubstr(">40<"));
  chart.has_log_axes = true;
  EXPECT_THAT(draw(chart), AllOf(HasSubstr(">10<"), Not(HasSubstr(">40<"))));
  chart.items[0].points[0].y = 0;
  EXPECT_THAT(draw(chart), HasSubstr(">40<")) << "0 has no logarithm";
}

}  // namespace sluice::report::report_target_test
