// Issue 18, item 6: what a run, a plan, a sweep and a report did without a
// word.
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/charts/chart.h"
#include "experiments/report/study/methods.h"
#include "experiments/sweep/file/read_sweep.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::report::told_test {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSmall =
    "blocks = 2\nevaluate_every = 0.5\nmodel = {hidden = [16]}\n";

class Told : public Program {
 protected:
  /// Runs the small config in the folder `dir`.
  Outcome run(const std::string& dir, const std::string& more) const {
    return sluice("run " + write("config.toml", config_with(kSmall)) +
                  " engine=virtual --dir " + path(dir) + " " + more);
  }
  std::vector<Record> records(const std::string& dir,
                              const std::string& kind) const {
    std::vector<Record> found;
    std::ifstream file(path(dir) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (Record record = record_from_json(line); record.text("kind") == kind)
        found.push_back(std::move(record));
    return found;
  }
};

TEST_F(Told, AnEarlyStopSaysWhenAndWhy) {
  const Outcome outcome =
      run("run", "turns=60 optimizer.lr=0 early_stop.patience=2");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto stops = records("run", "early_stop");
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].integer("turn"), 15);
  EXPECT_EQ(stops[0].integer("best_turn"), 5);
  EXPECT_EQ(stops[0].integer("without_progress"), 2);
  EXPECT_EQ(stops[0].number("best", -1),
            records("run", "evaluation")[0].number("accuracy", -2));
  EXPECT_THAT(outcome.text,
              HasSubstr(fmt::format("Early stop after turn 15: the test "
                                    "accuracy has not got better than {:.2f} "
                                    "% (turn 5) in 2 evaluations",
                                    100 * stops[0].number("best", -1))));
  EXPECT_THAT(run("whole", "").text, Not(HasSubstr("Early stop")));
}

TEST_F(Told, AnotherLengthOfACosineScheduleSaysHowTheRateJumps) {
  const std::string cosine =
      "'optimizer={name=\"sgd\", lr=0.1, schedule={name=\"cosine\"}}'";
  ASSERT_EQ(run("run", cosine).status, 0);
  const Outcome longer = sluice("run --resume " + path("run") + " turns=24");
  ASSERT_EQ(longer.status, 0) << longer.text;
  // Half of the way: 0.05; at the end of the first length, 11 / 12 of it.
  EXPECT_THAT(longer.text,
              HasSubstr("the learning rate goes from 0.001704 to 0.05 at turn "
                        "12: the schedule 'cosine' now ends after turn 24, not "
                        "12"));
  EXPECT_THAT(slurp(path("run/run.json")),
              HasSubstr("\"learning_rate\": \"the learning rate goes from"));
  ASSERT_EQ(run("constant", "optimizer.lr=0.1").status, 0);
  EXPECT_THAT(sluice("run --resume " + path("constant") + " turns=24").text,
              Not(HasSubstr("the learning rate goes")));
  EXPECT_THAT(slurp(path("constant/run.json")),
              Not(HasSubstr("learning_rate")));
}

TEST_F(Told, ARunWithoutAnEvaluationHasNoAccuracy) {
  const std::string config =
      write("config.toml", config_with("blocks = 2\nevaluate_every = 0\n"
                                       "model = {hidden = [16]}\n"));
  const Outcome outcome = shell(fmt::format(
      "{{ {} run {} engine=virtual turns=100000000 --dir {} & p=$!; while [ ! "
      "-s {}/metrics.jsonl ]; do sleep 0.1; done; kill -TERM $p; wait $p; }}",
      SLUICE_PROGRAM, config, path("run"), path("run")));
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("Stopped after"), HasSubstr(": not evaluated, "),
                    Not(HasSubstr("accuracy"))));
  ASSERT_EQ(records("run", "summary").size(), 1U);
  EXPECT_EQ(records("run", "summary")[0].find("accuracy"), nullptr);
  EXPECT_EQ(records("run", "summary")[0].find("loss"), nullptr);
  EXPECT_EQ(sluice("report " + path("run")).status, 0);
  EXPECT_THAT(slurp(path("run/report.md")), Not(HasSubstr(" 0.00 (1)")));
}

TEST_F(Told, APlanTakesItsSpeedUpFromTheWorkOfTheBlocks) {
  const std::string config =
      write("plan.toml",
            config_with("blocks = ['0', '1-']\nmodel = {hidden = [12, 588]}\n"
                        "boundary = {policy = 'local_loss'}\n"));
  const Outcome plan = sluice("plan " + config);
  ASSERT_EQ(plan.status, 0) << plan.text;
  // Biases count too: 9420 below; 7644 + 5890 = 13534 above, of 22954.
  EXPECT_THAT(
      plan.text,
      AllOf(HasSubstr("41.1 % of the work"), HasSubstr("58.9 % of the work"),
            HasSubstr("1.70 x one block"), HasSubstr("units a turn, 1.70 x"),
            HasSubstr("1 unit is the forward"), Not(HasSubstr("samples/s"))));
  const Outcome said = sluice("plan " + config + " --forward 1 --backward 2");
  EXPECT_THAT(said.text,
              AllOf(HasSubstr("s a turn"), HasSubstr("samples/s"),
                    HasSubstr("2.00 x one block"), Not(HasSubstr("unit"))));
}

TEST_F(Told, ASweepTakesAKeyTwiceForOtherValuesOfAnother) {
  const std::string config = write("config.toml", config_with(kSmall));
  const auto reading = [&](const std::vector<std::string>& settings) {
    sweep::read_sweep(config, {.settings = settings});
  };
  EXPECT_NO_THROW(reading({"optimizer.lr=1,2", "epochs=3,4"}));
  EXPECT_NO_THROW(reading({"optimizer.name=sgd,adam",
                           "optimizer.lr=1,2 if optimizer.name=sgd",
                           "optimizer.lr=3,4 if optimizer.name=adam"}));
}

/// Styles of so many cells of each of these methods.
std::vector<CellStyle> styles(const std::vector<std::string>& methods,
                              int count) {
  Study study;
  for (const std::string& method : methods)
    for (int i = 0; i < count; ++i) study.cells.push_back({.method = method});
  return styles_of(study);
}

std::set<std::string> drawings(const std::vector<CellStyle>& styles) {
  std::set<std::string> drawn;
  for (const CellStyle& style : styles) drawn.insert(key_drawing(style));
  return drawn;
}

TEST(ChartStyles, ChartStylesOfThirtyCellsOfAMethodAreAllDistinct) {
  const auto thirty = styles({"local_loss"}, 30);
  EXPECT_EQ(drawings(thirty).size(), 30U);
  for (const CellStyle& style : thirty) EXPECT_EQ(style.colour, 1);
}

TEST(ChartStyles, AreDistinctWhateverTheMethods) {
  EXPECT_EQ(drawings(styles({"backprop", "local_loss", "blend"}, 50)).size(),
            150U);
}

/// Without its label and the points' places.
std::string line_in(const CellStyle& style, int points) {
  Chart chart{.x_label = "turns", .items = {{.label = "a", .style = style}}};
  for (int i = 0; i < points; ++i)
    chart.items[0].points.push_back(
        {.x = static_cast<double>(i), .y = static_cast<double>(i)});
  return drawing_of(chart);
}

TEST(ChartStyles, StayDistinctOnCurvesOfManyPoints) {
  std::set<std::string> lines;
  for (const CellStyle& style : styles({"backprop"}, 30))
    lines.insert(line_in(style, 80));
  EXPECT_EQ(lines.size(), 30U);
}

}  // namespace sluice::report::told_test
