// Output that can't be written, and readers that go away. Issue 55, items 12
// and 13.
#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::output_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Output : public Program {
 protected:
  /// What is left on stderr, and the status, of `arguments` and what follows
  /// them in the shell.
  Outcome with(const std::string& arguments, const std::string& rest) const {
    return shell(fmt::format("bash -o pipefail -c \"cd {} && {} {} {}\"",
                             folder_, SLUICE_PROGRAM, arguments, rest));
  }
};

// `data order … > /dev/full` exited with 0, and so did all that print.
TEST_F(Output, ThatADiskHasNoRoomForIsOneErrorLine) {
  write("c.toml", config_with(""));
  ASSERT_EQ(sluice("run " + path("c.toml") + " --dir " + path("run")).status,
            0);
  for (const char* arguments : {"data order c.toml",
                                "config c.toml",
                                "list",
                                "list methods",
                                "help",
                                "help config",
                                "--help",
                                "run --help",
                                "--version",
                                "plan c.toml",
                                "eval run",
                                "report run",
                                "export run",
                                "checkpoint run",
                                "doctor",
                                "completion bash",
                                "complete run --",
                                "watch run --once",
                                "sweep c.toml optimizer.lr=1,2 --dry-run",
                                "run c.toml --dir again --overwrite"}) {
    const Outcome outcome = with(arguments, "> /dev/full");
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_THAT(outcome.text, testing::StartsWith("sluice: stdout: "));
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1)
        << arguments;
  }
  // What it printed is lost, what it did is done.
  EXPECT_TRUE(fs::exists(path("again/done")));
}

TEST_F(Output, WithoutAReaderLetsARunGoOnToItsEnd) {
  write("c.toml", config_with("epochs = 20\n"));
  const Outcome outcome =
      with("run c.toml --dir run evaluate_every=0.1", "| head -n 1");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, Not(HasSubstr("Broken pipe")));
  EXPECT_TRUE(fs::exists(path("run/done")));
  EXPECT_THAT(slurp(path("run/status.json")), HasSubstr("\"done\""));
  // Errors and notices go nowhere too.
  EXPECT_EQ(with("run c.toml --dir run2", "2>&1 | true").status, 0);
  EXPECT_TRUE(fs::exists(path("run2/done")));
}

TEST_F(Output, WithoutAReaderLetsASweepGoOnToItsEnd) {
  write("c.toml", config_with(""));
  const Outcome outcome =
      with("sweep c.toml optimizer.lr=0.1,0.2,0.3 --dir out", "| true");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  int done = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("out")))
    done += entry.path().filename() == "done" ? 1 : 0;
  EXPECT_EQ(done, 3);
}

// The run ended without a checkpoint, failed, with all turns since the last one
// lost.
TEST_F(Output, OutputOfMetricsThatHasNoRoomStopsARunWithACheckpoint) {
  if (!kFilesCanBeLimited) GTEST_SKIP() << "under the thread sanitizer";
  write("c.toml", config_with(""));
  const Outcome outcome =
      shell(fmt::format("cd {} && bash -c \"ulimit -f 100; {} run c.toml "
                        "--dir run evaluate_every=0 turns=3000 trace.turns=0 "
                        "model.hidden=4 log_every=1\" 2>&1",
                        folder_, SLUICE_PROGRAM));
  EXPECT_EQ(outcome.status, 2) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("run/metrics.jsonl: can't be written: File too large; "
                        "the run was stopped, with a checkpoint of turn "));
  EXPECT_THAT(outcome.text, HasSubstr("To continue: sluice run --resume run"));
  EXPECT_THAT(slurp(path("run/status.json")), HasSubstr("\"stopped\""));
  ASSERT_FALSE(find_checkpoints(path("run/checkpoints")).empty());
  const Outcome rest = sluice("run --resume " + path("run"));
  EXPECT_EQ(rest.status, 0) << rest.text;
}

TEST_F(Output, OutputOfALimitOfAnOptionIsShort) {
  for (const char* number : {"-1", "2x", "nan", "1e999"}) {
    const Outcome outcome =
        sluice(fmt::format("data order c.toml --turns={}", number));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_LT(outcome.text.size(), 150U) << outcome.text;
  }
}

}  // namespace sluice::output_test
