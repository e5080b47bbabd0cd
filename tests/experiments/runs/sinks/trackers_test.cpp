// The key `logger`, with trackers that aren't installed: a script in the place
// of Python gets the arguments of `python -m sluice.track`.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/numbers.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::trackers_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Trackers : public Program {
 protected:
  /// A script in the place of Python; $3 is the tracker, $4 the run's folder.
  std::string python(const std::string& lines) const {
    std::string file = write("python", "#!/bin/sh\n" + lines);
    fs::permissions(file, fs::perms::owner_all);
    return file;
  }
  /// Keeps what it was started with, waits for the end, counts the records.
  std::string listening_python() const {
    return python(
        fmt::format("echo \"$@\" > {0}/$3.arguments\ncat\n"
                    "wc -l < $4/metrics.jsonl > {0}/$3.records\n"
                    "test -e $4/done && echo done > {0}/$3.end\n",
                    folder_));
  }
  std::string config() const {
    return write("config.toml",
                 config_with("blocks = 2\nengine = 'virtual'\n"));
  }
  Outcome run(const std::string& python, const std::string& more) const {
    return shell(
        fmt::format("SLUICE_PYTHON={} {} run {} {} --overwrite --dir "
                    "{}",
                    python, SLUICE_PROGRAM, config(), more, path("run")));
  }
  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (auto at = text.find(part); at != text.npos;
         at = text.find(part, at + 1))
      ++found;
    return found;
  }
};

TEST_F(Trackers, AreToldOfAllOfARun) {
  const Outcome outcome =
      run(listening_python(), "logger='[\"wandb\", \"mlflow\"]'");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, Not(HasSubstr("logger")));
  const int records = count(slurp(path("run/metrics.jsonl")), "\n");
  ASSERT_GT(records, 12);
  for (const char* name : {"wandb", "mlflow"}) {
    EXPECT_EQ(
        slurp(path(fmt::format("{}.arguments", name))),
        fmt::format("-m sluice.track {} {} --until-eof\n", name, path("run")));
    EXPECT_EQ(slurp(path(fmt::format("{}.records", name))),
              fmt::format("{}\n", records));
    EXPECT_EQ(slurp(path(fmt::format("{}.end", name))), "done\n");
  }
}

TEST_F(Trackers, AreNotStartedForTensorBoardOrNobody) {
  for (const char* none : {"", "logger=tensorboard"}) {
    const Outcome outcome = run(listening_python(), none);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_FALSE(fs::exists(path("tensorboard.arguments")));
    EXPECT_FALSE(fs::exists(path("wandb.arguments")));
  }
}

TEST_F(Trackers, ThatFailAreOneLineAndHarmNoRun) {
  const Outcome outcome =
      run(python("echo Traceback >&2\necho 'sluice: has no key' >&2\nexit 1\n"),
          "logger=wandb");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text,
              HasSubstr("sluice: logger wandb: has no key; to tell it of this "
                        "run later: python3 -m sluice.track wandb " +
                        path("run")));
  EXPECT_EQ(count(outcome.text, "sluice: logger"), 1);
  EXPECT_TRUE(fs::exists(path("run/done")));
}

TEST_F(Trackers, WithoutPythonAreOneLineToo) {
  const Outcome outcome = run("/nowhere/python", "logger=mlflow");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("sluice: logger mlflow: /nowhere/python can't be "
                              "started: No such file or directory"),
                    HasSubstr("Done")));
}

TEST_F(Trackers, EndWithAProgramThatIsKilled) {
  const std::string command = fmt::format(
      "SLUICE_PYTHON={} timeout -s KILL 2 {} run {} turns=1000000 "
      "logger=wandb --dir {}",
      listening_python(), SLUICE_PROGRAM, config(), path("run"));
  shell("{ " + command + "; } > /dev/null");
  ASSERT_TRUE(fs::exists(path("wandb.arguments")));
  for (int tries = 0; tries < 2000 && !fs::exists(path("wandb.records"));
       ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(fs::exists(path("wandb.records")));
  EXPECT_FALSE(fs::exists(path("wandb.end"))) << "it was killed";
}

TEST_F(Trackers, AreNotToldOfWhatIsOnlyVerified) {
  const Outcome outcome =
      shell(fmt::format("SLUICE_PYTHON={} {} verify {} logger=wandb",
                        listening_python(), SLUICE_PROGRAM, config()));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_FALSE(fs::exists(path("wandb.arguments")));
}

TEST(TrackersOfAConfig, ChangeNoNumbers) {
  const auto numbers = [](const char* text) {
    return numbers_of(parse_toml(text, "config"));
  };
  EXPECT_EQ(numbers("batch_size = 8\nlogger = ['wandb']\n"),
            numbers("batch_size = 8\n"));
  EXPECT_NE(numbers("batch_size = 9\nlogger = ['wandb']\n"),
            numbers("batch_size = 8\n"));
}

}  // namespace sluice::trackers_test
