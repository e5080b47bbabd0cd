// What a process inherits isn't always what programs rely on. Issue 18, item
// 11.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"
#include "tests/experiments/sweep/sweeps.h"

namespace sluice::inherited_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

class Inherited : public Faults {
 protected:
  std::string output() const { return path("output"); }

  /// Sends a signal to the worker of a block as soon as it is there, long
  /// before it has joined the others; its process.
  int signal_at_start(const std::string& dir, int block, int number) const {
    for (int tries = 0; tries < 30'000; ++tries) {
      if (const int pid = worker_of(path(dir), block)) {
        ::kill(pid, number);
        return pid;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    ADD_FAILURE() << dir << " has no worker of block " << block;
    return 0;
  }
};

TEST_F(Inherited, IgnoredSigchldHidesNoWorkerThatDiedAtItsStart) {
  ProcessGroup group(fmt::format("sh -c \"trap '' CHLD; exec {} {}\"",
                                 SLUICE_PROGRAM, command("run", "timeout=3")),
                     output());
  const int worker = signal_at_start("run", 2, SIGKILL);
  EXPECT_EQ(group.wait(), 1);
  EXPECT_THAT(slurp(output()),
              HasSubstr(fmt::format("the worker process {} of block 2 was "
                                    "ended by signal 9",
                                    worker)));
}

// Before, the worker was missed after 60 s, and no line named it.
TEST_F(Inherited, AWorkerThatIsStoppedAtItsStartIsNamed) {
  ProcessGroup group(
      fmt::format("{} {}", SLUICE_PROGRAM, command("run", "timeout=3")),
      output());
  const int worker = signal_at_start("run", 2, SIGSTOP);
  EXPECT_EQ(group.wait(), 1);
  EXPECT_THAT(slurp(output()),
              HasSubstr(fmt::format("the worker process {} of block 2 has not "
                                    "joined the others: it is stopped",
                                    worker)));
  expect_nothing_left("run");
}

TEST_F(Inherited, AWorkerThatIsStoppedForAMomentIsWaitedFor) {
  ProcessGroup group(
      fmt::format("{} {}", SLUICE_PROGRAM, command("run", "timeout=20")),
      output());
  const int worker = signal_at_start("run", 2, SIGSTOP);
  ASSERT_GT(worker, 0);
  std::this_thread::sleep_for(milliseconds(1500));
  ::kill(worker, SIGCONT);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
}

/// Each line is a record.
void expect_records_only(const std::string& metrics) {
  std::ifstream file(metrics);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines)
    ASSERT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_GT(lines, 20);
}

TEST_F(Inherited, ClosedStandardStreamsAreNoFilesOfTheRun) {
  for (const char* closed : {">&-", "<&- >&- 2>&-", "<&- 2>&-"}) {
    SCOPED_TRACE(closed);
    const Outcome outcome =
        shell(fmt::format("({} {} {})", SLUICE_PROGRAM,
                          command("run", "log_every=1 --overwrite"), closed));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    expect_records_only(path("run/metrics.jsonl"));
    for (const auto& entry : fs::directory_iterator(path("run")))
      EXPECT_EQ(slurp(entry.path()).find("block 1  "), std::string::npos)
          << entry.path();
    expect_undisturbed("run", "log_every=1");
  }
}

/// As the root of a process namespace of its own, whose setting this is.
std::string with_no_executable_memory(int level) {
  return fmt::format(
      "unshare --map-root-user --pid --fork --mount-proc sh -c 'echo {} "
      ">/proc/sys/vm/memfd_noexec && exec \"$0\" \"$@\"' ",
      level);
}

TEST_F(Inherited, SharedMemoryWorksWhereNoMemoryFileMayBeExecuted) {
  for (const int level : {1, 2}) {
    const std::string before = with_no_executable_memory(level);
    if (shell(before + "true").status != 0)
      GTEST_SKIP() << "vm.memfd_noexec can't be set";
    const Outcome outcome =
        shell(before + SLUICE_PROGRAM + " " +
              command("run", "transport=shared_memory --overwrite"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
}

class InheritedBySweeps : public SluiceSweeps {};

TEST_F(InheritedBySweeps, IgnoredSigchldHidesNoRunThatIsOver) {
  ProcessGroup group(
      fmt::format("env --ignore-signal=CHLD {} {}", SLUICE_PROGRAM,
                  command("optimizer.lr=0.1,0.01", "out")),
      path("output"));
  EXPECT_EQ(group.wait(), kDone) << slurp(path("output"));
  EXPECT_TRUE(fs::exists(path("out/cells/002-0.01/seed-1/done")));
}

}  // namespace sluice::inherited_test
