// Sweeps worked off in parts, of which only the rows are kept.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/sweep/sweeps.h"

namespace sluice::sweep::done_rows_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DoneRows : public SluiceSweeps {
 protected:
  /// The rows of a sweep of one cell.
  std::string rows_of_first_part() const {
    EXPECT_EQ(sweep("optimizer.lr=0.1", "part").status, kDone);
    const Outcome report = sluice("report " + path("part"));
    EXPECT_EQ(report.status, 0) << report.text;
    return path("part/report_runs.csv");
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
};

TEST_F(DoneRows, CountAsDone) {
  const Outcome rest =
      sweep("optimizer.lr=0.1,0.01 --done " + rows_of_first_part());
  EXPECT_EQ(rest.status, kDone) << rest.text;
  EXPECT_THAT(rest.text, HasSubstr("1 of them elsewhere"));
  EXPECT_THAT(rest.text, HasSubstr("2 of 2 runs done"));
  EXPECT_FALSE(fs::exists(path("out/cells/001-0.1/seed-1")));
  EXPECT_TRUE(fs::exists(path("out/cells/002-0.01/seed-1/done")));
}

TEST_F(DoneRows, ThatASpreadsheetHasSavedCountToo) {
  const std::string rows =
      write("saved.csv", "\xEF\xBB\xBF" + slurp(rows_of_first_part()));
  EXPECT_THAT(sweep("optimizer.lr=0.1,0.01 --done " + rows).text,
              HasSubstr("1 of them elsewhere"));
}

TEST_F(DoneRows, GiveTheirFiguresToTheTable) {
  const std::string rows = rows_of_first_part();
  const auto line_of_cell = [](const std::string& text) {
    const std::size_t from = text.rfind("\nlr=0.1 ");
    return text.substr(from, text.find('\n', from + 1) - from);
  };
  EXPECT_EQ(
      line_of_cell(sweep("optimizer.lr=0.1,0.01 --done " + rows, "by").text),
      line_of_cell(sweep("optimizer.lr=0.1,0.01").text));
  EXPECT_FALSE(fs::exists(path("by/cells/001-0.1")));
}

TEST_F(DoneRows, DoneRowsOfAnotherConfigDontCount) {
  const Outcome other = sweep("optimizer.lr=0.1,0.01 batch_size=7 --done " +
                              rows_of_first_part());
  EXPECT_EQ(other.status, kDone) << other.text;
  EXPECT_THAT(other.text, HasSubstr("were they made with another config?"));
  EXPECT_TRUE(fs::exists(path("out/cells/001-0.1/seed-1/done")));
}

TEST_F(DoneRows, ThatAreDamagedAreNamedByLine) {
  const auto refused = [&](const std::string& text) {
    const Outcome outcome =
        sweep("optimizer.lr=0.1,0.01 --done " + write("rows.csv", text));
    EXPECT_EQ(outcome.status, kWrong) << outcome.text;
    return outcome.text;
  };
  EXPECT_THAT(refused("label,config\n"), HasSubstr("rows.csv: has no columns"));
  EXPECT_THAT(refused("label,config,state\n\"a\n\"\"b\",1,done\nc,1\n"),
              HasSubstr("rows.csv:4: has 2 columns, the first line 3"));
  EXPECT_THAT(refused("label,config,state\n\"lr=0.1,1,done\n"),
              HasSubstr("rows.csv:2: a quoted text doesn't end"));
  EXPECT_THAT(refused("config,state,test_loss\r\n1,done,high\r\n"),
              HasSubstr("rows.csv:2: 'high' is no number"));
}

TEST_F(DoneRows, CantGoWithHalving) {
  const Outcome outcome =
      sweep("optimizer.lr=0.1,0.01 'sweep.halving={rungs=[1]}' --done " +
            rows_of_first_part());
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("--done: a row has no figures"));
}

}  // namespace sluice::sweep::done_rows_test
