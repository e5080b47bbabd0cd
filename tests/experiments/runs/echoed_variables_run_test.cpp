// Auxiliary variables of an echo, in whole runs: engines, schedules, and a run
// that is continued within an echo.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "experiments/runs/uses/replay.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::echoed_variables_run_test {

/// Twelve turns of augmented samples: two batches three times, and again.
std::string config(const std::string& boundary, const std::string& more = "") {
  return more +
         "turns = 12\nbatch_size = 24\nthreads = 1\nblocks = 3\n"
         "model = {hidden = [24, 20]}\n"
         "optimizer = {lr = 0.05, momentum = 0.9}\n"
         "boundary = {" +
         boundary +
         ", memory = 'echo'}\n"
         "data = {train = 240, test = 40, augment = {crop = 2}, echo = "
         "{batches = 2, times = 3}}\n"
         "[[timetable]]\nturn = 2\n"
         "boundary = {order = 'weights_first', steps = 1}\n"
         "[[timetable]]\nturn = 4\nboundary = {steps = 0}\n"
         "[[timetable]]\nturn = 6\nrepeat = 1\n";
}

constexpr const char* kDual = "policy = 'augmented_lagrangian', beta = 0.5";

class EchoedVariablesRun : public Program {
 protected:
  std::string run(const std::string& dir, const std::string& lines,
                  const std::string& more = "") {
    const std::string file = write(dir + ".toml", lines);
    const Outcome outcome =
        sluice("run " + file + " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }

  static NamedTensors weights_of(const std::string& dir, std::int64_t turn) {
    return load_weights(checkpoint_folder(dir + "/checkpoints", turn));
  }
};

TEST_F(EchoedVariablesRun, HaveTheSameBitsOnAllEngines) {
  const std::string file = write("config.toml", config(kDual));
  const NamedTensors expected = weights_on("virtual", file);
  EXPECT_EQ(difference(expected, weights_on("threads", file)), "");
  EXPECT_EQ(difference(expected, weights_on("processes", file)), "");
}

TEST_F(EchoedVariablesRun, HaveTheSameBitsInAnyOrderOfMicroBatches) {
  const auto in_order = [&](const char* order) {
    return weights_of(
        run(order, config(kDual, "pipeline = {micro_batches = 2, order = '" +
                                     std::string(order) + "'}\n")),
        12);
  };
  const NamedTensors in_turns = in_order("turns");
  EXPECT_EQ(difference(in_turns, in_order("gpipe")), "");
  EXPECT_LT(distance(in_turns, weights_of(run("whole", config(kDual)), 12)),
            1e-5);
}

class EchoedVariablesRunStopped : public EchoedVariablesRun,
                                  public testing::WithParamInterface<int> {};

/// In the pass that leaves variables, and in both that go by them.
TEST_P(EchoedVariablesRunStopped, GoOnWithTheBitsOfTheUninterruptedRun) {
  const std::string whole = run("whole", config(kDual));
  const std::string part =
      run("part", config(kDual), "turns=" + std::to_string(GetParam()));
  const Outcome resumed =
      sluice("run --resume " + part + " turns=12 engine=threads");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(weights_of(whole, 12), weights_of(part, 12)), "");
}

INSTANTIATE_TEST_SUITE_P(Turns, EchoedVariablesRunStopped,
                         testing::Values(1, 3, 5, 6));

TEST_F(EchoedVariablesRun, AreReplayedFromAFreeScheduleAfterAResume) {
  const std::string lines =
      config("policy = 'penalty', beta = 0.5, step_size = 1.5",
             "schedule = 'free'\nin_flight = 3\nengine = 'threads'\n");
  const std::string dir = run("free", lines, "turns=5");
  const Outcome resumed = sluice("run --resume " + dir + " turns=12");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(replay(dir).difference(), "");
}

}  // namespace sluice::echoed_variables_run_test
