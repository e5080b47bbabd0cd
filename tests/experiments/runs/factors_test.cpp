// Evaluations that pass the factors of nmf boundaries (DeepFacto).
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::factors_test {

using testing::HasSubstr;

class EvaluatedFactors : public Program,
                         public testing::WithParamInterface<const char*> {
 protected:
  std::string run(const std::string& dir, const std::string& rank,
                  const std::string& evaluate) {
    const std::string config = write(
        "config.toml",
        config_with("blocks = 3\nmodel = {hidden = [24, 20]}\n"
                    "optimizer = {lr = 0.05}\nevaluate_every = 0.5\n"
                    "boundary = {policy = 'nmf', memory = 'sample', dual = "
                    "true, rank = " +
                    rank + ", evaluate = '" + evaluate + "'}\n"));
    const Outcome outcome =
        sluice("run " + config + " turns=12 engine=" + GetParam() + " --dir " +
               path(dir));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }
  static double last_loss(const std::string& dir) {
    return records_of(dir, "evaluation").back().number("loss", 0);
  }
  static NamedTensors weights_of(const std::string& dir) {
    return load_weights(checkpoint_folder(dir + "/checkpoints", 12));
  }
};

TEST_P(EvaluatedFactors, ChangeNothingButTheEvaluation) {
  const std::string features = run("features", "6", "features");
  const std::string factors = run("factors", "6", "factors");
  EXPECT_EQ(difference(weights_of(features), weights_of(factors)), "");
  EXPECT_GT(std::abs(last_loss(features) - last_loss(factors)), 1e-4);
}

TEST_P(EvaluatedFactors, AreThoseOfTheCheckpointInEvalToo) {
  for (const char* evaluate : {"features", "factors"}) {
    const std::string dir = run(evaluate, "6", evaluate);
    const Outcome evaluated =
        sluice("eval " + dir + "/checkpoints/turn-000012");
    EXPECT_EQ(evaluated.status, 0);
    EXPECT_THAT(evaluated.text,
                HasSubstr(fmt::format("loss {:.4f}", last_loss(dir))));
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EvaluatedFactors,
                         testing::Values("virtual", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace sluice::factors_test
