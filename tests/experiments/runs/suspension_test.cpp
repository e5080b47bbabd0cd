// A run that was suspended for longer than its timeout goes on when it wakes,
// and ends with the bits of one that was not disturbed. Issue 18, item 9.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::suspension_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kTimeout = 3;  // s

class Suspension : public Faults {
 protected:
  static constexpr unsigned kAtOnce = 2;

  std::string dir(unsigned run) { return fmt::format("run-{}", run); }
  std::string output(unsigned run) { return path(dir(run) + ".txt"); }
  std::string line(unsigned run, const std::string& more) {
    return fmt::format(
        "{} {}", SLUICE_PROGRAM,
        command(dir(run), fmt::format("timeout={} {}", kTimeout, more)));
  }

  /// The run in the first folder.
  void await_training() {
    for (int tries = 0; tries < 6000; ++tries) {
      if (!records_of(path(dir(0)), "train").empty()) break;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  void suspend_when_it_trains(const ProcessGroup& group) {
    await_training();
    group.signal(SIGSTOP);
    std::this_thread::sleep_for(2 * std::chrono::seconds(kTimeout));
    group.signal(SIGCONT);
  }

  /// Runs that start at random moments are suspended together for twice the
  /// timeout: the first while it trains, the others maybe before.
  void suspend_some(std::mt19937& random, const std::string& arguments) {
    constexpr const char* kTransports[] = {"unix", "tcp", "shared_memory"};
    std::uniform_int_distribution pause(0, 700);  // ms
    std::vector<std::unique_ptr<ProcessGroup>> groups;
    for (unsigned i = 0; i < kAtOnce; ++i) {
      fs::remove_all(path(dir(i)));
      fs::remove(output(i));
      groups.push_back(std::make_unique<ProcessGroup>(
          line(i, fmt::format("transport={} {}",
                              kTransports[(random() + i) % 3], arguments)),
          output(i)));
      if (i == 0) await_training();
      std::this_thread::sleep_for(milliseconds(pause(random)));
    }
    // What a terminal's Ctrl-Z sends, or what a scheduler does.
    const int stop =
        std::uniform_int_distribution(0, 1)(random) == 0 ? SIGTSTP : SIGSTOP;
    for (const auto& group : groups) group->signal(stop);
    std::this_thread::sleep_for(2 * std::chrono::seconds(kTimeout));
    for (const auto& group : groups) group->signal(SIGCONT);
    for (unsigned i = 0; i < kAtOnce; ++i)
      ASSERT_EQ(groups[i]->wait(), 0) << slurp(output(i));
    for (unsigned i = 0; i < kAtOnce; ++i) expect_as_undisturbed(dir(i));
  }
};

TEST_F(Suspension,
       SuspensionOfAllProcessesForLongerThanTheTimeoutChangesNothing) {
  const unsigned rounds = from_environment("SLUICE_SUSPENSIONS", kAtOnce);
  std::mt19937 random(random_seed());
  run_undisturbed("log_every=1");
  const auto started = std::chrono::steady_clock::now();
  for (unsigned done = 0; done < rounds && !HasFailure(); done += kAtOnce)
    suspend_some(random, "--inject 'delay 1->2 150ms' log_every=1");
  fmt::print(
      "{} suspended runs in {:.0f} s\n", rounds,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started)
          .count());
}

// Ranks have no supervisor: each has the deadlines of its links.
TEST_F(Suspension, SuspensionOfRanksForLongerThanTheTimeoutChangesNothing) {
  run_undisturbed();
  const std::string script = write(
      "ranks.sh",
      fmt::format("export WORLD_SIZE=3 MASTER_PORT={}\n"
                  "for RANK in 2 1 0; do\nexport RANK\n{} & last=$!\ndone\n"
                  "wait $last; status=$?; wait; exit $status\n",
                  20'000 + ::getpid() % 20'000,
                  line(0, "--inject 'delay 1->2 150ms' log_every=1")));
  ProcessGroup group("sh " + script, output(0));
  suspend_when_it_trains(group);
  ASSERT_EQ(group.wait(), 0) << slurp(output(0));
  EXPECT_EQ(difference(weights_at_end("whole"), weights_at_end(dir(0))), "");
}

TEST_F(Suspension, SuspensionOfOneThreadPerBlockChangesNothing) {
  const std::string more =
      "turns=1000 evaluate_every=0 log_every=1 checkpoint.every_turns=500";
  run_undisturbed(more);
  ProcessGroup group(line(0, "engine=threads " + more), output(0));
  suspend_when_it_trains(group);
  ASSERT_EQ(group.wait(), 0) << slurp(output(0));
  expect_as_undisturbed(dir(0));
}

}  // namespace sluice::suspension_test
