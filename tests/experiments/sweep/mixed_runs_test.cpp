// A sweep whose runs were made by several, or on data that have changed.
#include "experiments/sweep/mixed_runs.h"

#include <fstream>
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/sweep/file/plan_file.h"
#include "experiments/sweep/file/read_sweep.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/sweep/sweeps.h"

namespace sluice::sweep::mixed_runs_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MixedSweeps : public SluiceSweeps {
 protected:
  MixedSweeps() {
    write_data(1);
    write("files.toml",
          "turns = 4\nbatch_size = 10\nthreads = 1\nblocks = 1\n"
          "engine = 'virtual'\nmodel = {hidden = [8]}\n"
          "data = {name = 'tensors', train = 'a.safetensors', test = "
          "'a.safetensors', root = '" +
              folder_ + "'}\n");
  }
  void write_data(double factor) const {
    write_safetensors(
        path("a.safetensors"),
        {{"inputs", at::arange(80, at::kFloat).view({20, 4}) * factor},
         {"targets", at::arange(20) % 3}});
  }
  Outcome sweep_files(const std::string& more) const {
    return sluice("sweep " + path("files.toml") + " --dir " + path("out") +
                  " optimizer.lr=0.1,0.01 " + more);
  }
  /// Changes run.json of the first cell's first run.
  void change(const std::function<void(nlohmann::ordered_json&)>& how) const {
    const std::string file = path("out/cells/001-0.1/seed-1/run.json");
    auto run = nlohmann::ordered_json::parse(slurp(file));
    how(run);
    std::ofstream(file) << run.dump();
  }
};

TEST_F(MixedSweeps, DontGoOnOverDataThatHaveChanged) {
  EXPECT_EQ(sweep_files("").status, kDone);
  write_data(2);
  const Outcome other = sweep_files("--seeds 2");
  EXPECT_EQ(other.status, kWrong);
  EXPECT_THAT(other.text, AllOf(HasSubstr("on other data than are there now"),
                                HasSubstr("a.safetensors has")));
  const Outcome again = sweep_files("--seeds 2 --again");
  EXPECT_EQ(again.status, kDone) << again.text;
  EXPECT_THAT(again.text, Not(HasSubstr("The data have changed")));
}

TEST_F(MixedSweeps, MarkRowsOfRunsThatWereNotMadeAlike) {
  EXPECT_EQ(sweep_files("").status, kDone);
  change([](auto& run) { run["libtorch"] = "2.11.0"; });
  const Outcome more = sweep_files("--seeds 2");
  EXPECT_EQ(more.status, kDone) << more.text;
  EXPECT_THAT(more.text, AllOf(HasSubstr("lr=0.1 * "), HasSubstr("lr=0.01 "),
                               HasSubstr("libtorch 2.11.0 and")));
}

/// Changed while the sweep goes on: what is done was looked at before.
TEST_F(MixedSweeps, CountRunsThatWereDoneOnDataThatChangedMeanwhile) {
  EXPECT_EQ(sweep_files("").status, kDone);
  const Sweep sweep =
      read_sweep(path("files.toml"), {.settings = {"optimizer.lr=0.1,0.01"}});
  const std::string folder = path("out");
  const SweepRuns runs(sweep, placed(plan_of(sweep), folder), folder,
                       reader_with(""));
  EXPECT_EQ(outdated_in(runs).count, 0U);
  EXPECT_EQ(notes_on_mixed(runs), "");
  write_data(2);
  EXPECT_EQ(outdated_in(runs).count, 2U);
  EXPECT_THAT(notes_on_mixed(runs),
              AllOf(HasSubstr("The data have changed: 2 of the runs were done"),
                    HasSubstr("--again")));
}

}  // namespace sluice::sweep::mixed_runs_test
