// Variables of samples are in checkpoints: a run that is continued goes on from
// where they had come to.
#include <string>

#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::variables_resume_test {

struct ResumeCase {
  const char* name;
  const char* engine;
  const char* boundary;
  int tables = 2;  ///< of two boundaries
};

class VariablesResume : public Program,
                        public testing::WithParamInterface<ResumeCase> {
 protected:
  std::string run(const std::string& dir, const std::string& more) {
    const std::string config = write(
        "config.toml",
        config_with("blocks = 3\nmodel = {hidden = [24, 20]}\n"
                    "optimizer = {lr = 0.05, momentum = 0.9}\nboundary = {" +
                    std::string(GetParam().boundary) + "}\n"));
    const Outcome outcome =
        sluice("run " + config + " engine=" + GetParam().engine + " --dir " +
               path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }

  static NamedTensors weights_of(const std::string& dir, std::int64_t turn) {
    return load_weights(checkpoint_folder(dir + "/checkpoints", turn));
  }
};

/// Epochs have ten turns of 24 samples: the last two turns meet samples again.
TEST_P(VariablesResume, GivesTheBitsOfTheUninterruptedRun) {
  const std::string whole = run("whole", "");
  const std::string part = run("part", "turns=7");
  int tables = 0;
  for (const auto& [name, tensor] : weights_of(part, 7))
    if (name.ends_with(".epochs")) {
      ++tables;
      EXPECT_EQ(tensor.sum().item<std::int64_t>(), 7 * 24) << name;
    }
  EXPECT_EQ(tables, GetParam().tables);
  const Outcome resumed = sluice("run --resume " + part + " turns=12");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(weights_of(whole, 12), weights_of(part, 12)), "");
}

/// The run knows nothing of the other's samples. A turn has 24 samples.
TEST_P(VariablesResume, BeginsAnewInARunThatTakesTheWeightsOfAnother) {
  const std::string first = run("first", "turns=7");
  const std::string next =
      run("next", "turns=1 initial_weights=" +
                      checkpoint_folder(first + "/checkpoints", 7));
  int tables = 0;
  for (const auto& [name, tensor] : weights_of(next, 1)) {
    if (!name.ends_with(".epochs")) continue;
    ++tables;
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 24) << name;
  }
  EXPECT_EQ(tables, GetParam().tables);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, VariablesResume,
    testing::Values(
        ResumeCase{"WeightsFirstInProcesses", "processes",
                   "policy = 'augmented_lagrangian', memory = 'sample', order "
                   "= 'weights_first'"},
        ResumeCase{"BlockAdmmInThreads", "threads",
                   "policy = 'block_admm', memory = 'sample'"},
        ResumeCase{"BlockAdmmFromTheTop", "virtual",
                   "policy = 'block_admm', memory = 'sample', order = "
                   "'top_down', step = 'gradient', step_size = 0.5"},
        ResumeCase{"AtOnce", "virtual",
                   "policy = 'penalty', memory = 'sample', order = 'at_once', "
                   "steps = 2, step_size = 0.5"},
        ResumeCase{"FactorsAndDuals", "processes",
                   "policy = 'nmf', memory = 'sample', dual = true, evaluate = "
                   "'factors'",
                   4}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace sluice::variables_resume_test
