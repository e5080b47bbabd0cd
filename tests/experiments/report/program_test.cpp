// `sluice report` over runs that were really trained.
#include "tests/experiments/helpers/program.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/memory/allocator.h"

namespace sluice::report::report_program_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReportProgram : public Program {
 protected:
  /// Back-propagation once and delayed gradients twice, below a folder.
  void train_below(const std::string& folder, const std::string& engine) const {
    const std::string config =
        write("config.toml", config_with("blocks = 2\nprobe = {every = 4}\n"
                                         "model = {hidden = [8, 8]}\n"));
    for (const auto& [policy, seed] : {std::pair{"backprop", 1},
                                       {"delayed_gradient", 1},
                                       {"delayed_gradient", 2}}) {
      const Outcome run = sluice(fmt::format(
          "run {} engine={} seed={} boundary.policy={} --dir {}/{}-{}", config,
          engine, seed, policy, path(folder), policy, seed));
      ASSERT_EQ(run.status, 0) << run.text;
    }
  }
};

TEST_F(ReportProgram, RunsThatWereTrainedTwiceHaveTheSameReportWithoutTimes) {
  train_below("first", "virtual");
  train_below("second", "threads");
  for (const char* folder : {"first", "second"}) {
    const Outcome report = sluice("report --untimed " + path(folder));
    ASSERT_EQ(report.status, 0) << report.text;
    EXPECT_THAT(report.text, HasSubstr("report.html"));
  }
  for (const char* ending : {".html", ".md", ".csv", "_runs.csv"})
    EXPECT_EQ(slurp(path("first/report") + ending),
              slurp(path("second/report") + ending))
        << ending;
  const std::string markdown = slurp(path("first/report.md"));
  EXPECT_THAT(markdown, AllOf(HasSubstr("| backprop | 1 of 1 |"),
                              HasSubstr("| delayed\\_gradient | 2 of 2 |"),
                              HasSubstr("computed, "), HasSubstr("sent, ")));
}

/// The texts of a row of CSV, without quotes inside of quotes.
std::vector<std::string> texts_of(const std::string& row) {
  std::vector<std::string> texts(1);
  bool is_quoted = false;
  for (const char c : row) {
    if (c == '"')
      is_quoted = !is_quoted;
    else if (c == ',' && !is_quoted)
      texts.emplace_back();
    else
      texts.back() += c;
  }
  return texts;
}

/// The values of a column.
std::vector<double> column_of(const std::string& csv, const std::string& name) {
  std::istringstream lines(csv);
  std::vector<double> values;
  std::ptrdiff_t column = -1;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> texts = texts_of(line);
    if (column < 0)
      column = std::find(texts.begin(), texts.end(), name) - texts.begin();
    else
      values.push_back(std::stod(texts.at(static_cast<std::size_t>(column))));
  }
  return values;
}

TEST_F(ReportProgram, OperationsFollowEachOtherUnlessBlocksWorkAtOnce) {
  train_below("runs", "virtual");
  ASSERT_EQ(sluice("report " + path("runs")).status, 0);
  const std::string rows = slurp(path("runs/report_runs.csv"));
  const std::vector<double> all = column_of(rows, "flops");
  const std::vector<double> chain = column_of(rows, "sequential_flops");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_DOUBLE_EQ(chain[0], all[0]) << "back-propagation";
  EXPECT_LT(chain[1], all[1]) << "delayed gradients";
  EXPECT_GT(chain[1], all[1] / 2) << "the larger block";
}

/// 12 turns of two replicas of one block.
class ReportedReplicas : public ReportProgram {
 protected:
  /// Rows of a report on a run of them.
  std::string rows_with(const std::string& name,
                        const std::string& replicas) const {
    const std::string config =
        write("config.toml", config_with("blocks = 1\nengine = 'virtual'\n"));
    const Outcome run = sluice(fmt::format(
        "run {} replicas.count=2 {} --dir {}", config, replicas, path(name)));
    EXPECT_EQ(run.status, 0) << run.text;
    EXPECT_EQ(sluice("report " + path(name)).status, 0);
    return slurp(path(name + "/report_runs.csv"));
  }
  double sent(const std::string& name, const std::string& replicas) const {
    return column_of(rows_with(name, replicas), "bytes_sent").at(0);
  }
};

TEST_F(ReportedReplicas, SendWhatTheirExchangesAre) {
  const std::string average = "replicas.policy=average replicas.every=";
  const double all = sent("1", average + "1");
  EXPECT_GT(all, 0);
  EXPECT_DOUBLE_EQ(sent("5", average + "5") / all, 2.0 / 12);
  EXPECT_DOUBLE_EQ(sent("7", average + "7") / all, 1.0 / 12);
  EXPECT_EQ(sent("13", average + "13"), 0);
}

TEST_F(ReportedReplicas, WithClocksOfTheirOwnSendWhatTheyBringAndTake) {
  // For a sum each of two sends as much as it has, once; here both ways.
  const double sums = sent("sums", "replicas.policy=all_reduce");
  const std::string free = "schedule=free replicas.policy=";
  EXPECT_DOUBLE_EQ(sent("server", free + "server"), 2 * sums);
  EXPECT_DOUBLE_EQ(sent("elastic", free + "elastic replicas.one_by_one=true "
                                          "replicas.every=5"),
                   2 * sums * 2 / 12);
}

TEST_F(ReportedReplicas, ThatLeaveOutTurnsSendWhatNobodyKnowsBeforehand) {
  const std::string rows = rows_with(
      "backup", "schedule=free replicas.policy=all_reduce replicas.backup=1");
  EXPECT_THAT(rows,
              AllOf(HasSubstr("test_accuracy"), Not(HasSubstr("bytes_sent"))));
}

TEST_F(ReportProgram, ShowsTheForecastOfMemoryBesideWhatWasMeasured) {
  if (!install_allocator())
    GTEST_SKIP() << "bytes are not counted under AddressSanitizer";
  const std::string config = write("config.toml", config_with("blocks = 2\n"));
  for (const auto& [engine, forecast] :
       {std::pair{"virtual", "false"}, {"processes", "true"}}) {
    const std::string run = path(engine);
    ASSERT_EQ(sluice(fmt::format("run {} engine={} forecast={} --dir {}",
                                 config, engine, forecast, run))
                  .status,
              0);
    ASSERT_EQ(sluice("report " + run).status, 0);
  }
  const std::string without = slurp(path("virtual/report.html"));
  const std::string with = slurp(path("processes/report.html"));
  for (const char* column : {"<th>forecast</th>", "<th>resident</th>"}) {
    EXPECT_EQ(without.find(column), without.npos) << column;
    EXPECT_NE(with.find(column), with.npos) << column;
  }
}

TEST_F(ReportProgram, ShowsTheMemoryOfACentreWhereReplicasHaveOne) {
  const std::string config = write("config.toml", config_with("blocks = 1\n"));
  for (const auto& [name, more] :
       {std::pair{"one", ""},
        {"several", "schedule=free replicas.count=2 replicas.policy=server"}}) {
    const std::string run = path(name);
    ASSERT_EQ(
        sluice(fmt::format("run {} {} --dir {}", config, more, run)).status, 0);
    ASSERT_EQ(sluice("report " + run).status, 0);
  }
  const char* const column = "<th>centre of replicas</th>";
  EXPECT_THAT(slurp(path("one/report.html")), Not(HasSubstr(column)));
  EXPECT_THAT(slurp(path("several/report.html")), HasSubstr(column));
}

TEST_F(ReportProgram, ADamagedFileIsOneLineAndExitStatus2) {
  fs::create_directories(path("run"));
  write("run/config.toml", "seed = 1\n");
  write("run/metrics.jsonl", "nonsense\n");
  const Outcome report = sluice("report " + folder_);
  EXPECT_EQ(report.status, 2);
  EXPECT_THAT(report.text, HasSubstr("metrics.jsonl:1: is damaged"));
  EXPECT_EQ(std::count(report.text.begin(), report.text.end(), '\n'), 1)
      << report.text;
}

/// Empty when there is none.
std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (shell(fmt::format("command -v {}", name)).status == 0) return name;
  return "";
}

TEST_F(ReportProgram, ABrowserDrawsThePageWithoutScrollingSideways) {
  const std::string chromium = browser();
  if (chromium.empty()) GTEST_SKIP() << "there is no chromium here";
  train_below("runs", "virtual");
  ASSERT_EQ(sluice("report " + path("runs")).status, 0);
  // In a frame as wide as a phone, a page that is too wide says so. Long
  // sections are folded there, which are opened to be measured.
  const std::string page = write(
      "frame.html",
      fmt::format("<html><body><iframe id='f' src='file://{}' width='390' "
                  "height='800'></iframe><p id='p'>?</p><script>f.onload=()=>{{"
                  "const d=f.contentDocument.documentElement;"
                  "const folds=d.querySelectorAll('details.fold').length;"
                  "d.querySelectorAll('details').forEach(e=>e.open=true);"
                  "p.textContent='width '+d.scrollWidth+' of '+d.clientWidth+"
                  "' charts '+d.querySelectorAll('svg').length+"
                  "' folds '+folds}}</script>"
                  "</body></html>",
                  path("runs/report.html")));
  const Outcome drawn = shell(fmt::format(
      "{} --headless=new --no-sandbox --disable-gpu --user-data-dir={} "
      "--allow-file-access-from-files --virtual-time-budget=5000 --dump-dom "
      "file://{}",
      chromium, path("profile"), page));
  const std::string before = "<p id=\"p\">";
  const auto at = drawn.text.find(before + "width ");
  ASSERT_NE(at, drawn.text.npos) << drawn.text;
  int wide = 0;
  int frame = 0;
  int charts = 0;
  int folds = 0;
  ASSERT_EQ(std::sscanf(drawn.text.c_str() + at + before.size(),
                        "width %d of %d charts %d folds %d", &wide, &frame,
                        &charts, &folds),
            4)
      << drawn.text;
  EXPECT_LE(wide, frame);
  EXPECT_GT(charts, 10);
  EXPECT_GT(folds, 0);
}

}  // namespace sluice::report::report_program_test
