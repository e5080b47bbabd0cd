// Rows whose runs were not all computed alike are marked.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/sections/report.h"
#include "experiments/report/sections/table_files.h"
#include "experiments/report/study/study.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::mixed_makers_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MixedMakers : public ReportFolder {
 protected:
  void make(const std::string& name, int seed, const std::string& method,
            const std::string& libtorch, const std::string& more = "") const {
    make_run(name, {.method = method, .seed = seed});
    write(name + "/run.json",
          fmt::format(R"({{"libtorch": "{}", "devices": ["AMD EPYC"]{}}})",
                      libtorch, more));
  }
};

TEST_F(MixedMakers, AreNamedWhereSeedsWereComputedByTwoVersions) {
  make("a1", 1, "backprop", "2.11.0");
  make("a2", 2, "backprop", "2.13.0");
  make("b1", 1, "local_loss", "2.11.0");
  make("b2", 2, "local_loss", "2.11.0");
  const Study study = read_study({folder_});
  ASSERT_EQ(study.cells.size(), 2U);
  EXPECT_EQ(study.cells[0].mixed_makers(), "libtorch 2.11.0 and 2.13.0");
  EXPECT_EQ(study.cells[1].mixed_makers(), "");
  EXPECT_EQ(runs_text(study.cells[0]), "2 of 2, mixed makers");
  EXPECT_EQ(runs_text(study.cells[1]), "2 of 2");
}

TEST_F(MixedMakers, AreNamedWhereOneRunWasContinuedByAnother) {
  make("a1", 1, "backprop", "2.11.0",
       R"(, "continued": [{"libtorch": "2.13.0", "turn": 10}])");
  const Study study = read_study({folder_});
  EXPECT_EQ(study.cells[0].mixed_makers(), "libtorch 2.11.0 and 2.13.0");
  EXPECT_THAT(study.cells[0].runs[0].made_with,
              AllOf(HasSubstr("2.11.0"), HasSubstr("then with LibTorch 2.13")));
}

TEST_F(MixedMakers, AreInThePageAndTheTables) {
  make("a1", 1, "backprop", "2.11.0");
  make("a2", 2, "backprop", "2.13.0");
  const ReportFiles files = write_report({.folders = {folder_}});
  for (const std::string& file : {files.page, files.markdown})
    EXPECT_THAT(slurp(file), AllOf(HasSubstr("Mixed makers"),
                                   HasSubstr("libtorch 2.11.0 and 2.13.0")))
        << file;
  EXPECT_THAT(slurp(files.page), HasSubstr("others with LibTorch 2.13.0"));
  EXPECT_THAT(slurp(files.table), HasSubstr("mixed_makers"));
}

TEST_F(MixedMakers, AreNotToldWhereAllAreAlike) {
  make("a1", 1, "backprop", "2.13.0");
  make("a2", 2, "backprop", "2.13.0");
  const ReportFiles files = write_report({.folders = {folder_}});
  EXPECT_THAT(slurp(files.page), Not(HasSubstr("ixed makers")));
  EXPECT_THAT(slurp(files.table), Not(HasSubstr("mixed_makers")));
}

}  // namespace sluice::report::mixed_makers_test
