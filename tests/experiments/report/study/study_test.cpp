// Which runs a report finds, and how it puts them into cells.
#include "experiments/report/study/study.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/study/columns.h"
#include "experiments/report/study/price.h"
#include "lib/base/error.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::report_study_test {

using testing::ElementsAre;
using testing::HasSubstr;

class ReportStudy : public ReportFolder {
 protected:
  Study read() const { return read_study({folder_}); }
  std::vector<Column> columns_in(const Study& study) const {
    return columns_of(
        study, std::vector<std::optional<TurnWork>>(study.cells.size()), false);
  }
  std::string error() const {
    try {
      read();
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(ReportStudy, RunsThatDifferInTheirSeedOnlyAreOneCell) {
  make_run("run-10", {.seed = 3});
  make_run("run-2", {.seed = 2, .more_config = "threads = 1\n"});
  make_run("run-1", {.seed = 1, .more_config = "threads = 2\n"});
  make_run("run-3", {.method = "local_loss"});
  const Study study = read();
  ASSERT_EQ(study.cells.size(), 2U);
  const StudyCell& cell = study.cells[0];
  EXPECT_EQ(cell.label, "backprop");
  ASSERT_EQ(cell.runs.size(), 3U);
  EXPECT_EQ(cell.runs[0].seed, 1);
  EXPECT_EQ(cell.runs[2].seed, 3);
  EXPECT_EQ(study.cells[1].label, "local_loss");
  EXPECT_THAT(study.axes, ElementsAre("boundary.policy"));
}

TEST_F(ReportStudy, ASeedCountsOnce) {
  make_run("a", {.accuracy = 0.1, .is_done = false});
  make_run("b", {.accuracy = 0.2});
  make_run("c", {.accuracy = 0.2});
  make_run("d", {.seed = 2});
  const Study study = read();
  ASSERT_EQ(study.cells.size(), 1U);
  ASSERT_EQ(study.cells[0].runs.size(), 2U);
  EXPECT_EQ(study.cells[0].runs[0].folder, path("b")) << "the first done one";
  EXPECT_EQ(study.repeats, 2);
}

TEST_F(ReportStudy, CellsAreNamedByWhatTheyDifferIn) {
  make_run("a", {.more_config = "batch_size = 8\n"});
  make_run("b", {.more_config = "batch_size = 16\n"});
  const Study study = read();
  ASSERT_EQ(study.cells.size(), 2U);
  EXPECT_EQ(study.cells[0].label, "backprop, batch_size=8");
  EXPECT_EQ(study.cells[1].label, "backprop, batch_size=16");
  EXPECT_THAT(study.cells[1].values, ElementsAre("16"));
}

TEST_F(ReportStudy, LabelsSayNoMoreThanTellsCellsApart) {
  const auto make = [&](const char* name, const char* config) {
    make_run(name, {.more_config = config});
  };
  make("a",
       "momentum = 0.5\n[model]\nname = \"mlp\"\n[optimizer.1]\nlr = "
       "0.1\n[optimizer.2]\nlr = 0.1\n");
  make("b",
       "momentum = 0.9\n[model]\nname = \"mlp\"\n[optimizer.1]\nlr = "
       "0.2\n[optimizer.2]\nlr = 0.2\n");
  make("c",
       "momentum = 0.9\n[model]\nname = \"gpt\"\n[optimizer.1]\nlr = "
       "0.1\n[optimizer.2]\nlr = 0.2\n");
  const Study study = read();
  ASSERT_EQ(study.cells.size(), 3U);
  EXPECT_EQ(study.cells[0].label, "backprop, mlp, lr=0.1");
  EXPECT_EQ(study.cells[1].label, "backprop, mlp, lr=0.2");
  EXPECT_EQ(study.cells[2].label, "backprop, gpt");
  EXPECT_EQ(baseline_of(study, columns_in(study), 2), std::nullopt)
      << "another model";
}

TEST_F(ReportStudy, AFolderOfFoldersIsSearchedAndARunIsReadOnce) {
  make_run("deep/er/run", {});
  const Study study = read_study({folder_, path("deep"), path("deep/er/run")});
  ASSERT_EQ(study.cells.size(), 1U);
  EXPECT_EQ(study.cells[0].runs.size(), 1U);
}

constexpr const char* kSweep = R"({
  "name": "of methods", "axes": ["boundary.policy", "optimizer.lr"],
  "cells": [
    {"id": "001", "folder": "cells/001", "label": "policy=local_loss, lr=0.1",
     "values": {"boundary.policy": "local_loss", "optimizer.lr": 0.1},
     "seeds": [1, 2, 3, 4]},
    {"id": "002", "folder": "cells/002", "label": "policy=backprop, lr=0.1",
     "values": {"boundary.policy": "backprop", "optimizer.lr": 0.1},
     "seeds": [1]}]})";

TEST_F(ReportStudy, ASweepSaysWhichRunsThereShouldBe) {
  write("sweep.json", kSweep);
  make_run("cells/001/seed-1", {.method = "local_loss", .seed = 1});
  make_run("cells/001/seed-2",
           {.method = "local_loss", .seed = 2, .is_done = false});
  write("cells/001/seed-3.failed", path("cells/001/seed-3") + ": NaN\nmore\n");
  make_run("cells/002/seed-1", {});
  write("cells/002/seed-1.failed", "of an earlier try");
  const Study study = read();
  EXPECT_EQ(study.title, "of methods");
  ASSERT_EQ(study.cells.size(), 2U);
  const StudyCell& cell = study.cells[0];
  EXPECT_EQ(cell.label, "policy=local_loss, lr=0.1");
  EXPECT_EQ(cell.method, "local_loss");
  EXPECT_THAT(cell.values, ElementsAre("local_loss", "0.1"));
  ASSERT_EQ(cell.runs.size(), 4U);
  EXPECT_EQ(cell.runs[0].state, RunRecord::State::done);
  EXPECT_EQ(cell.runs[1].state, RunRecord::State::unfinished);
  EXPECT_EQ(cell.runs[2].state, RunRecord::State::failed);
  EXPECT_EQ(cell.runs[2].error, "cells/001/seed-3: NaN");
  EXPECT_EQ(cell.runs[3].state, RunRecord::State::absent);
  EXPECT_EQ(study.cells[1].runs[0].state, RunRecord::State::done);
}

TEST_F(ReportStudy, HalfALastLineMakesARunUnfinished) {
  make_run("run", {});
  write("run/metrics.jsonl",
        slurp(path("run/metrics.jsonl")) + R"({"kind":"eval)");
  const Study study = read();
  EXPECT_EQ(study.cells[0].runs[0].state, RunRecord::State::unfinished);
  EXPECT_EQ(study.cells[0].runs[0].accuracy.size(), 2U);
}

TEST_F(ReportStudy, ADamagedLineIsNamed) {
  make_run("run", {});
  write("run/metrics.jsonl",
        "{\"kind\":\"summary\"}\nnonsense\n{\"kind\":\"summary\"}\n");
  EXPECT_THAT(error(), HasSubstr("run/metrics.jsonl:2: is damaged"));
  EXPECT_THAT(error(), HasSubstr("--overwrite"));
}

TEST_F(ReportStudy, ADamagedSweepFileIsNamed) {
  write("sweep.json", "{\"name\": 3}");
  EXPECT_THAT(error(), HasSubstr("sweep.json: is damaged"));
}

TEST_F(ReportStudy, AFolderWithoutRunsIsNamed) {
  write("notes.txt", "");
  EXPECT_THAT(error(), HasSubstr(folder_ + ": has no runs"));
  EXPECT_THROW(read_study({path("nowhere")}), UserError);
}

TEST_F(ReportStudy, OnlyRunsThatAreDoneHaveFigures) {
  make_run("a", {.seed = 1, .accuracy = 0.5, .seconds = 10});
  make_run("b", {.seed = 2, .accuracy = 0.7, .seconds = 30});
  make_run("c", {.seed = 3, .accuracy = 0.9, .is_done = false});
  const Study study = read();
  const auto columns = columns_in(study);
  const Column* accuracy = find_column(columns, "test_accuracy");
  ASSERT_NE(accuracy, nullptr);
  EXPECT_EQ(accuracy->text(0), "60.00 ± 14.14 (2)");
  EXPECT_DOUBLE_EQ(find_column(columns, "seconds")->mean(0), 20);
  EXPECT_DOUBLE_EQ(find_column(columns, "peak_memory_bytes")->mean(0), 21000);
  EXPECT_EQ(find_column(columns, "bytes_sent"), nullptr)
      << "nobody knows them here";
}

TEST_F(ReportStudy, ThePriceIsAgainstBackPropagationWithTheSameOtherAxes) {
  const auto make = [&](const char* name, const char* method, const char* size,
                        double accuracy) {
    make_run(name, {.method = method,
                    .accuracy = accuracy,
                    .more_config = std::string("batch_size = ") + size + "\n"});
  };
  make("a", "backprop", "8", 0.5);
  make("b", "backprop", "16", 0.9);
  make("c", "local_loss", "8", 0.4);
  make("d", "local_loss", "16", 0.4);
  make("e", "local_loss", "32", 0.4);
  const Study study = read();
  const auto columns = columns_in(study);
  EXPECT_EQ(baseline_of(study, columns, 0), std::nullopt);
  EXPECT_EQ(baseline_of(study, columns, 1), std::nullopt);
  EXPECT_EQ(baseline_of(study, columns, 2), 0);
  EXPECT_EQ(baseline_of(study, columns, 3), 1);
  EXPECT_EQ(baseline_of(study, columns, 4), 1) << "the best one";
}

}  // namespace sluice::report::report_study_test
