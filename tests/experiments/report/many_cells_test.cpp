// A page of many cells, of runs that were written, not trained: three methods,
// four numbers of blocks, three learning rates and three seeds.
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/charts/axis_value.h"
#include "experiments/report/charts/chart.h"
#include "experiments/report/sections/report.h"
#include "experiments/report/sections/table_files.h"
#include "experiments/report/study/study.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::many_cells_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::array<const char*, 3> kMethods = {"backprop", "local_loss",
                                                 "delayed_gradient"};
constexpr std::array<int, 4> kBlocks = {1, 2, 4, 8};
constexpr std::array<const char*, 3> kRates = {"0.01", "0.1", "1"};
constexpr std::size_t kCells = 36;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// What lies behind the first `before`, up to `after`; empty: there is none.
std::string between(const std::string& text, const std::string& before,
                    const std::string& after) {
  const auto at = text.find(before);
  if (at == text.npos) return "";
  const auto begin = at + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

class ManyCells : public ReportFolder {
 protected:
  /// 0.1 is the best rate of every method but delayed gradients.
  static double accuracy_of(std::size_t method, std::size_t rate) {
    const std::size_t best = method == 2 ? 0 : 1;
    return 0.9 - 0.1 * static_cast<double>(method) - (rate == best ? 0 : 0.2);
  }
  void make_sweep() const {
    std::string cells;
    int number = 0;
    for (std::size_t m = 0; m < kMethods.size(); ++m)
      for (const int blocks : kBlocks)
        for (std::size_t r = 0; r < kRates.size(); ++r) {
          const std::string id = fmt::format("{:03}", ++number);
          cells += fmt::format(
              R"({}{{"id": "{}", "folder": "cells/{}", "label": )"
              R"("policy={}, blocks={}, lr={}", "values": )"
              R"({{"boundary.policy": "{}", "blocks": {}, )"
              R"("optimizer.lr": {}}}, "seeds": [1, 2, 3]}})",
              cells.empty() ? "" : ",\n", id, id, kMethods.at(m), blocks,
              kRates.at(r), kMethods.at(m), blocks, kRates.at(r));
          for (int seed = 1; seed <= 3; ++seed)
            make_cell(fmt::format("cells/{}/seed-{}", id, seed), m, blocks, r,
                      seed);
        }
    write("sweep.json",
          fmt::format(R"({{"name": "many", "axes": ["boundary.policy", )"
                      R"("blocks", "optimizer.lr"], "cells": [{}]}})",
                      cells));
  }
  std::string page() const {
    return slurp(write_report({.folders = {folder_}}).page);
  }

 private:
  void make_cell(const std::string& name, std::size_t method, int blocks,
                 std::size_t rate, int seed) const {
    make_run(name,
             {.method = kMethods.at(method),
              .seed = seed,
              .accuracy = accuracy_of(method, rate) + 0.01 * seed,
              .more_metrics = R"({"kind":"staleness","block":1,)"
                              R"("counter":"d_batch","value":1,"times":20})"
                              "\n"});
    std::string ranges;
    for (int i = 0; i < blocks; ++i)
      ranges += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", i);
    std::string text = slurp(path(name + "/config.toml"));
    const std::string two = "blocks = [\"0\", \"1\"]";
    text.replace(text.find(two), two.size(),
                 fmt::format("blocks = [{}]", ranges));
    // A single block has no boundary: it is back-propagation whatever the axis.
    if (blocks == 1) text.erase(text.find("[boundary.1]"));
    write(name + "/config.toml", text);
  }
};

/// The rows of the first table, in their order.
std::vector<std::string> rows_of(const std::string& page) {
  const std::string body = between(page, "<tbody>", "</tbody>");
  std::vector<std::string> rows;
  for (auto at = body.find("<tr"); at != body.npos;
       at = body.find("<tr", at + 1))
    rows.push_back(body.substr(at, body.find("</tr>", at) - at));
  return rows;
}

TEST_F(ManyCells, HaveAColumnPerAxisAndTheBestRatesFirst) {
  make_sweep();
  const std::string html = page();
  EXPECT_EQ(count(html, "class=\"text axis\""), 3);
  const std::vector<std::string> rows = rows_of(html);
  ASSERT_EQ(rows.size(), kCells);
  for (std::size_t i = 0; i < kCells; ++i)
    EXPECT_EQ(rows[i].starts_with("<tr class=\"best\""), i < 12) << rows[i];
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_THAT(rows[i], HasSubstr(fmt::format("data-value=\"{}\"",
                                               i < 8 ? "0.1" : "0.01")));
}

TEST_F(ManyCells, AreDrawnOncePerNumberOfBlocksOnTheSameAxes) {
  make_sweep();
  const std::string curves =
      between(page(), "<section id=\"curves\">", "</section>");
  const std::string panels = curves.substr(0, curves.find("<details>"));
  std::map<std::string, std::set<std::string>> axes;  // by abscissa
  std::map<std::string, int> charts;
  std::istringstream lines(panels);
  for (std::string line; std::getline(lines, line);) {
    const std::string title = between(line, "class=\"chart-title\">", "<");
    if (!title.ends_with("test accuracy, %")) continue;
    EXPECT_EQ(count(line, "class=\"series\""), 3) << title;
    const std::string abscissa = between(line, " against ", "\"");
    ++charts[abscissa];
    axes[abscissa].insert(between(line, "data-x=\"", "\"") + ";" +
                          between(line, "data-y=\"", "\""));
  }
  EXPECT_EQ(charts["turns"], 4);
  for (const auto& [abscissa, same] : axes)
    EXPECT_EQ(same.size(), 1U) << abscissa;
  for (const int blocks : kBlocks)
    EXPECT_THAT(panels, HasSubstr(fmt::format(">{} block", blocks)));
  EXPECT_THAT(curves, HasSubstr("<summary>All 36 cells</summary>"));
}

TEST_F(ManyCells, HaveAColourForEachMethodInPanels) {
  make_sweep();
  const std::string curves =
      between(page(), "<section id=\"curves\">", "</section>");
  const std::string legend = between(curves, "<ul class=\"legend\">", "</ul>");
  std::set<std::string> colours;
  const std::string line = "class=\"line c";
  for (auto at = legend.find(line); at != legend.npos;
       at = legend.find(line, at + 1))
    colours.insert(legend.substr(at + line.size(), 1));
  EXPECT_EQ(colours.size(), kMethods.size()) << legend;
}

TEST_F(ManyCells, KeepAColumnForEachPanel) {
  make_sweep();
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("style=\"--panels:4\""));
  const std::string training =
      between(html, "<section id=\"training\">", "</section>");
  EXPECT_EQ(count(training, "charts multiples"), 2) << "two blocks were told";
  EXPECT_EQ(count(training, "<svg class=\"chart\"") +
                count(training, "class=\"missing\""),
            8);
}

TEST_F(ManyCells, HaveThePriceOfTheBestFirstAgainstAsManyBlocks) {
  make_sweep();
  const std::string section =
      between(page(), "<section id=\"price\">", "</section>");
  const std::string best = between(section, "<tbody>", "</tbody>");
  EXPECT_EQ(count(best, "<tr>"), 7)
      << "two methods, four numbers of blocks, but for one that is the same";
  for (const int blocks : kBlocks)
    EXPECT_EQ(count(best, fmt::format("<td class=\"text\">policy=backprop, "
                                      "blocks={}, lr=0.1</td>",
                                      blocks)),
              blocks == 1 ? 1 : 2);
  const std::string all =
      section.substr(section.find("<summary>All 36 cells</summary>"));
  EXPECT_EQ(count(between(all, "<tbody>", "</tbody>"), "<tr>"), 24);
}

TEST_F(ManyCells, ShowEqualStalenessOnce) {
  make_sweep();
  const std::string section =
      between(page(), "<section id=\"staleness\">", "</section>");
  EXPECT_EQ(count(section, "<figure>"), 1);
  EXPECT_THAT(section, HasSubstr("36 cells alike"));
}

TEST_F(ManyCells, HaveNoTwoStylesAlikeInAPicture) {
  make_sweep();
  const std::string legend =
      between(page(), "<summary>All 36 cells</summary>", "</ul>");
  std::set<std::string> marks;
  const std::string mark = "<svg class=\"key\"";
  for (auto at = legend.find(mark); at != legend.npos;
       at = legend.find(mark, at + 1))
    marks.insert(legend.substr(at, legend.find("</svg>", at) - at));
  EXPECT_EQ(marks.size(), kCells);
}

TEST_F(ManyCells, HaveTheMemoryOfTheBestAlone) {
  make_sweep();
  const std::string section =
      between(page(), "<section id=\"memory\">", "</section>");
  EXPECT_THAT(section, HasSubstr("Of 36 cells the 12 best"));
  EXPECT_EQ(count(section, "<tr>"), 1 + 12 * 2) << "a head, two blocks each";
  EXPECT_EQ(count(section, "<th rowspan=\"2\">"), 12);
}

TEST_F(ManyCells, HaveTheirBestInFilesToo) {
  make_sweep();
  const std::string figures = write_report({.folders = {folder_}}).figures;
  for (const int blocks : kBlocks)
    EXPECT_TRUE(std::filesystem::exists(fmt::format(
        "{}/accuracy_by_turns_best_{}_blocks.svg", figures, blocks)));
  EXPECT_TRUE(std::filesystem::exists(figures + "/accuracy_by_turns.svg"));
}

class FewCells : public ReportFolder {
 protected:
  /// Ran from then on, for as long.
  void make_timed(const std::string& name, const std::string& method,
                  double started, double lasted) const {
    make_run(name, {.method = method});
    write(name + "/run.json",
          fmt::format(R"({{"host": "here", "started": {}}})", started));
    std::string metrics = slurp(path(name) + "/metrics.jsonl");
    metrics.insert(metrics.rfind('}'), fmt::format(",\"time\":{}", lasted));
    write(name + "/metrics.jsonl", metrics);
  }
};

TEST_F(FewCells, SayWhichRunsSharedAMachine) {
  make_timed("a", "backprop", 1000, 50);
  make_timed("b", "local_loss", 1040, 50);
  make_timed("c", "delayed_gradient", 1100, 50);
  const ReportFiles files = write_report({.folders = {folder_}});
  EXPECT_THAT(slurp(files.markdown),
              AllOf(HasSubstr("Shared: runs were on one machine"),
                    HasSubstr("alone: backprop; local\\_loss.")));
  EXPECT_EQ(count(slurp(files.page), "class=\"n\"> shared</span>"), 4)
      << "time and rate of two cells";
  make_timed("b", "local_loss", 1050, 50);
  write_report({.folders = {folder_}});
  EXPECT_THAT(slurp(files.markdown), Not(HasSubstr("Shared")));
}

TEST_F(FewCells, CountThoseThatSharedAMachineWhereTheyAreMany) {
  for (int i = 0; i < 5; ++i)
    make_timed(fmt::format("run-{}", i), fmt::format("method_{}", i), 1000, 50);
  make_timed("alone", "backprop", 2000, 50);
  const ReportFiles files = write_report({.folders = {folder_}});
  EXPECT_THAT(slurp(files.page),
              HasSubstr("alone: 5 of 6 cells, where the table says so."));
  EXPECT_THAT(slurp(files.markdown), HasSubstr("method\\_4."))
      << "there the table doesn't";
}

TEST_F(FewCells, ListPluginsAsAConfigDoes) {
  make_run("a", {.more_config = "plugins = [{path = \"/far/libmine.so\", "
                                "sha256 = \"0badc0de\"}]\n"});
  const ReportFiles files =
      write_report({.folders = {folder_}, .only_numbers = true});
  const std::string shown = between(slurp(files.page), "<pre>", "</pre>");
  EXPECT_THAT(shown, AllOf(HasSubstr("path = &quot;libmine.so&quot;"),
                           HasSubstr("sha256 = &quot;0badc0de&quot;"),
                           Not(HasSubstr("/far/"))));
}

TEST(AxisValue, AxisValueOfATableIsItsChoiceAndOptions) {
  EXPECT_EQ(readable_value(R"({"policy":"local_loss","head":{"name":"predsim",)"
                           R"("width":64},"reach":2})"),
            "local_loss, head=predsim, head.width=64, reach=2");
  EXPECT_EQ(readable_value(R"({"policy":"backprop"})"), "backprop");
}

TEST(AxisValue, ThatIsNoTableStaysAsItIs) {
  for (const char* text : {"", "0.1", "[64,64]", "resnet18", "{broken", "{}"})
    EXPECT_EQ(readable_value(text), text);
}

TEST_F(FewCells, SayWhichRunsStoppedEarly) {
  make_run("a", {.more_metrics = R"({"kind":"early_stop","turn":20,)"
                                 R"("split":"test","measure":"loss",)"
                                 R"("best":1.5,"best_turn":10,)"
                                 R"("without_progress":2})"
                                 "\n"});
  make_run("b", {.seed = 2});
  const Study study = read_study({folder_});
  ASSERT_EQ(study.cells.size(), 1U);
  EXPECT_EQ(runs_text(study.cells[0]), "2 of 2, 1 stopped early");
}

TEST_F(FewCells, HaveNoPanels) {
  make_run("a", {});
  make_run("b", {.method = "local_loss"});
  const std::string html = slurp(write_report({.folders = {folder_}}).page);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("charts multiples\"")),
                          Not(HasSubstr("id=\"only-best\"")),
                          HasSubstr("class=\"series\"")));
}

TEST(Chart, IsLinearWhereItSaysSo) {
  const auto is_log = [](bool is_linear) {
    const std::string drawn =
        draw({.x_label = "turns",
              .items = {{.label = "a",
                         .points = {{.x = 1, .y = 0.01}, {.x = 2, .y = 1}}}},
              .is_linear = is_linear});
    std::istringstream axis(between(drawn, "data-y=\"", "\""));
    double low = 0;
    double high = 0;
    bool log = false;
    axis >> low >> high >> log;
    return log;
  };
  EXPECT_TRUE(is_log(false));
  EXPECT_FALSE(is_log(true));
}

TEST(Chart, TellsItsAxesAndWhatItDraws) {
  const Chart chart{.x_label = "turns",
                    .items = {{.label = "a <b>",
                               .points = {{.x = 1, .y = 1}, {.x = 3, .y = 2}},
                               .entry = "line"}},
                    .room = {{.x = 9, .y = 0.5}}};
  const std::string drawn = draw(chart);
  EXPECT_THAT(drawn,
              HasSubstr("data-entry=\"line\" data-label=\"a &lt;b&gt;\""));
  std::istringstream axis(between(drawn, "data-x=\"", "\""));
  double low = 0;
  double high = 0;
  int is_log = -1;
  axis >> low >> high >> is_log;
  EXPECT_LT(low, 1);
  EXPECT_GT(high, 9) << "there is room";
  EXPECT_EQ(is_log, 0);
}

}  // namespace sluice::report::many_cells_test
