// The page and the tables beside it, of runs that were not trained: read by
// Python's parsers, not compared with a copy.
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "experiments/report/sections/report.h"
#include "lib/base/error.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::report_page_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct PythonOutput {
  int status = 0;
  std::string text;
};

PythonOutput python(const std::string& arguments) {
  FILE* pipe = ::popen(
      fmt::format("{} {} 2>&1", SLUICE_TEST_PYTHON, arguments).c_str(), "r");
  PythonOutput said;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0;
       (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    said.text.append(buffer.data(), n);
  said.status = WEXITSTATUS(::pclose(pipe));
  return said;
}

class ReportPage : public ReportFolder {
 protected:
  /// What check_report.py says about the page.
  PythonOutput checked(const std::string& page) const {
    return python(fmt::format("{}/experiments/helpers/check_report.py {}",
                              SLUICE_TEST_FOLDER, page));
  }
  ReportFiles report(bool only_numbers = false) const {
    return write_report(
        {.folders = {folder_},
         .only_numbers = only_numbers,
         .facts = [](const ConfigNode&) {
           return ConfigFacts{
               .work = TurnWork{.flops = 2e6, .boundary_bytes = 1024}};
         }});
  }
  /// Their names and texts.
  static std::string figures_in(const std::string& folder) {
    std::map<std::string, std::string> texts;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      texts[entry.path().filename()] = slurp(entry.path());
    std::string all;
    for (const auto& [name, text] : texts)
      all += fmt::format("{}\n{}\n", name, text);
    return all;
  }
  /// Two cells, of which one has lost a seed.
  void make_sweep(double time_factor = 1) const {
    write("sweep.json", R"({"name": "a <b> & \"c\"",
      "axes": ["boundary.policy"], "cells": [
      {"id": "001", "folder": "cells/001", "label": "policy=backprop <&\">",
       "values": {"boundary.policy": "backprop"}, "seeds": [1, 2]},
      {"id": "002", "folder": "cells/002", "label": "policy=local_loss",
       "values": {"boundary.policy": "local_loss"}, "seeds": [1, 2, 3]}]})");
    const auto make = [&](const char* folder, const char* method, int seed,
                          double accuracy, double seconds) {
      make_run(folder, {.method = method,
                        .seed = seed,
                        .accuracy = accuracy,
                        .seconds = seconds * time_factor,
                        .more_metrics = kMore});
    };
    make("cells/001/seed-1", "backprop", 1, 0.90, 10);
    make("cells/001/seed-2", "backprop", 2, 0.91, 12);
    make("cells/002/seed-1", "local_loss", 1, 0.80, 5);
    make("cells/002/seed-2", "local_loss", 2, 0.82, 6);
    write("cells/002/seed-3.failed", "block 2: loss <NaN> & \"inf\"\n");
    write("cells/002/seed-1/trace.json", kTrace);
  }

  static constexpr const char* kMore =
      R"({"kind":"probe","turn":0,"block":1,"batch":0,"cosine":0.5,)"
      R"("norm_ratio":2.0,"sign_agreement":0.75,"time":1.0})"
      "\n"
      R"({"kind":"layer_probe","turn":0,"block":1,"batch":0,"layer":1,)"
      R"("cosine":0.25,"norm_ratio":2.0,"sign_agreement":0.75,"time":1.0})"
      "\n"
      R"({"kind":"staleness","block":1,"counter":"d_batch","value":1,)"
      R"("times":20})"
      "\n";
  static constexpr const char* kTrace =
      R"({"displayTimeUnit": "ms", "traceEvents": [
{"ph":"X","name":"F0","cat":"forward","pid":1,"tid":1,"ts":0.0,"dur":10.0,
 "args":{"batch":0,"turn":0}},
{"ph":"s","name":"activation","id":1,"pid":1,"tid":1,"ts":9.0},
{"ph":"X","name":"F0","cat":"forward","pid":1,"tid":2,"ts":12.0,"dur":10.0,
 "args":{"batch":0,"turn":0}},
{"ph":"f","name":"activation","id":1,"pid":1,"tid":2,"ts":12.0,"bp":"e"}
]})";
};

TEST_F(ReportPage, HasEveryCellAndMarksThoseThatLostRuns) {
  make_sweep();
  const PythonOutput page = checked(report().page);
  ASSERT_EQ(page.status, 0) << page.text;
  EXPECT_THAT(
      page.text,
      AllOf(
          HasSubstr("row - cell | policy | runs | test accuracy, % |"),
          HasSubstr("row - 001 | backprop | 2 of 2 | 90.50 ± 0.71 |"),
          HasSubstr("row failed 002 | local_loss | 2 of 3, 1 failed | 81.00 ± "
                    "1.41 |"),
          HasSubstr("text policy=backprop <&\">\n"),
          HasSubstr("text policy=local_loss, seed 3, failed: block 2: loss "
                    "<NaN> & \"inf\"")));
  for (const char* section : {"results", "curves", "price", "training", "truth",
                              "staleness", "memory", "timeline", "repeat"})
    EXPECT_THAT(page.text, HasSubstr(fmt::format("section {}\n", section)));
  for (const char* chart :
       {"test accuracy, %", "test loss", "training loss, block 2",
        "cosine, block 1", "cosine, by layer", "ratio of norms, by layer"})
    EXPECT_THAT(page.text, HasSubstr(fmt::format("text {}\n", chart)));
}

TEST_F(ReportPage, WithoutTimesIsTheSameForRunsThatTookLonger) {
  make_sweep();
  const ReportFiles files = report(true);
  const auto all = [&] {
    return slurp(files.page) + slurp(files.markdown) + slurp(files.table) +
           slurp(files.runs) + figures_in(files.figures);
  };
  const std::string first = all();
  make_sweep(3);
  report(true);
  EXPECT_EQ(all(), first);
  EXPECT_THAT(first, Not(HasSubstr(folder_)));
  for (const char* measured :
       {"seconds", "samples/s", "peak memory", "time, s"})
    EXPECT_THAT(first, Not(HasSubstr(measured)));
  report(false);
  EXPECT_NE(all(), first);
}

TEST_F(ReportPage, BothReportsHaveTheSameCells) {
  make_sweep();
  const auto rows_of = [&](bool only_numbers) {
    std::istringstream page(checked(report(only_numbers).page).text);
    std::string rows;
    for (std::string line; std::getline(page, line);)
      if (line.starts_with("row ")) rows += line.substr(0, line.find('|'));
    return rows;
  };
  EXPECT_THAT(rows_of(true), HasSubstr("row failed 002"));
  EXPECT_EQ(rows_of(true), rows_of(false));
}

TEST_F(ReportPage, TablesHoldTheNumbersOfTheRuns) {
  make_sweep();
  const ReportFiles files = report();
  const std::string script = write("check.py", R"(
import csv, json, pathlib, statistics, sys
root = pathlib.Path(sys.argv[1])
runs = list(csv.DictReader(open(sys.argv[2], newline="")))
cells = list(csv.DictReader(open(sys.argv[3], newline="")))
assert len(runs) == 5 and len(cells) == 2, (runs, cells)
assert cells[0]["label"] == 'policy=backprop <&">', cells[0]
assert runs[4]["state"] == "failed" and runs[4]["test_accuracy"] == "", runs[4]
for cell in cells:
    accuracies, seconds = [], []
    for run in runs:
        if run["cell"] != cell["cell"] or run["state"] != "done":
            continue
        path = root / "cells" / run["cell"] / ("seed-" + run["seed"])
        records = [json.loads(line)
                   for line in open(path / "metrics.jsonl")]
        last = [r for r in records if r["kind"] == "evaluation"][-1]
        summary = [r for r in records if r["kind"] == "summary"][-1]
        peaks = [r["peak_bytes"] for r in records if r["kind"] == "block"]
        assert float(run["test_accuracy"]) == last["accuracy"]
        assert float(run["test_loss"]) == last["loss"]
        assert float(run["seconds"]) == summary["seconds"]
        assert float(run["samples_per_second"]) == summary["samples_per_second"]
        assert float(run["peak_memory_bytes"]) == sum(peaks)
        assert float(run["bytes_sent"]) == 20 * 1024
        accuracies.append(last["accuracy"])
        seconds.append(summary["seconds"])
    assert int(cell["test_accuracy_n"]) == len(accuracies) == 2
    for name, values in (("test_accuracy", accuracies), ("seconds", seconds)):
        mean, std = float(cell[name + "_mean"]), float(cell[name + "_std"])
        assert abs(mean - statistics.mean(values)) < 1e-12, (cell, values)
        assert abs(std - statistics.stdev(values)) < 1e-12, (cell, values)
assert cells[1]["failed"] == "1" and cells[1]["done"] == "2"
)");
  const PythonOutput said = python(
      fmt::format("{} {} {} {}", script, folder_, files.runs, files.table));
  EXPECT_EQ(said.status, 0) << said.text;
}

TEST_F(ReportPage, FiguresAreFilesThatNeedNoOther) {
  make_sweep();
  const std::string folder = report().figures;
  for (const char* name :
       {"accuracy_by_turns", "loss_by_bytes", "accuracy_against_seconds"}) {
    const std::string figure = slurp(fmt::format("{}/{}.svg", folder, name));
    const std::string script =
        write("parse.py",
              "import sys, xml.etree.ElementTree as tree\n"
              "root = tree.parse(sys.argv[1]).getroot()\n"
              "print(root.tag, ' '.join(root.itertext()))\n");
    const PythonOutput said =
        python(fmt::format("{} {}/{}.svg", script, folder, name));
    EXPECT_EQ(said.status, 0) << said.text;
    EXPECT_THAT(said.text, AllOf(HasSubstr("{http://www.w3.org/2000/svg}svg"),
                                 HasSubstr("policy=local_loss")));
    EXPECT_THAT(figure, Not(HasSubstr("var(")));
  }
}

TEST_F(ReportPage, VirtualTimeIsDrawnAndSaysItsCosts) {
  make_run("with", {.virtual_seconds = 2,
                    .more_config = "[virtual]\nforward = 0.025\n"});
  make_run("without", {.method = "local_loss"});
  const ReportFiles files = report();
  EXPECT_THAT(slurp(files.figures + "/accuracy_by_virtual_time.svg"),
              HasSubstr("virtual time, s"));
  EXPECT_THAT(slurp(files.page), AllOf(HasSubstr("virtual time by these costs"),
                                       HasSubstr("forward = 0.025")));
  EXPECT_THAT(slurp(report(true).page),
              Not(HasSubstr("virtual time by these costs")));
}

TEST_F(ReportPage, MarkdownHasARowForEachCell) {
  make_sweep();
  const std::string text = slurp(report().markdown);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("# a \\<b\\> \\& \"c\""),
            HasSubstr("| policy=backprop \\<\\&\"\\> | 2 of 2 | **90.50 ± 0.71 "
                      "(2)** |"),
            HasSubstr("| policy=local\\_loss | **2 of 3, 1 failed** | 81.00"),
            HasSubstr("seed 3: failed: block 2: loss")));
}

TEST_F(ReportPage, ARunAloneHasAReportToo) {
  make_run("run", {.is_done = false});
  const ReportFiles files = write_report({.folders = {path("run")}});
  EXPECT_EQ(files.page, path("run/report.html"));
  const PythonOutput page = checked(files.page);
  ASSERT_EQ(page.status, 0) << page.text;
  EXPECT_THAT(page.text,
              AllOf(HasSubstr("row open backprop | 0 of 1, 1 unfinished"),
                    HasSubstr("section curves")));
}

TEST_F(ReportPage, ANumberThatDivergedIsNoReasonToFail) {
  make_run("run", {.more_metrics = R"({"kind":"evaluation","turn":30,)"
                                   R"("loss":"nan","accuracy":0.1,"time":9})"
                                   "\n"});
  const PythonOutput page = checked(report().page);
  EXPECT_EQ(page.status, 0) << page.text;
  EXPECT_THAT(page.text, HasSubstr("| 10.00 | nan |"));
}

TEST_F(ReportPage, APlaceThatCantBeWrittenIsNamed) {
  make_run("run", {});
  const auto error = [&](const std::string& page) -> std::string {
    try {
      write_report({.folders = {folder_}, .page = page});
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(error(path("no/such/page.html")),
              HasSubstr("no/such/page.html: can't be written"));
  EXPECT_THAT(error(path("page.pdf")), HasSubstr(".html"));
}

}  // namespace sluice::report::report_page_test
