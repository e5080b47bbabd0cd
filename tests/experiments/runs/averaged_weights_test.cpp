// optimizer.average and tail_average: evaluations and checkpoints have an
// average of the weights, and training goes on as without it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::averaged_weights_test {

using testing::HasSubstr;

class AveragedWeights : public Program,
                        public testing::WithParamInterface<const char*> {
 protected:
  std::string run(const std::string& dir, const std::string& more) {
    const std::string config = write(
        "config.toml",
        config_with("blocks = 2\nevaluate_every = 0.5\n"
                    "model = {hidden = [24, 20], batch_norm = true}\n"
                    "boundary = {policy = 'local_loss', head = {name = "
                    "'predsim'}}\n"
                    "optimizer = {lr = 0.1, momentum = 0.9}\n"
                    "checkpoint = {every_turns = 1, keep = 100, initial = "
                    "true}\n"));
    const Outcome outcome =
        sluice("run " + config + " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }
  NamedTensors weights(const std::string& dir, std::int64_t turn) {
    return load_weights(checkpoint_folder(path(dir) + "/checkpoints", turn));
  }
  NamedTensors own(const std::string& dir, std::int64_t turn) {
    return load_own_weights(checkpoint_folder(path(dir) + "/checkpoints", turn),
                            1);
  }
};

bool is_buffer(const std::string& name) {
  return name.find("running_") != name.npos ||
         name.find("num_batches") != name.npos;
}

TEST_P(AveragedWeights, AreTheMovingAverageOfThoseOfARunWithout) {
  const std::string more = std::string(GetParam()) + " turns=6 ";
  run("plain", more);
  run("average", more + "optimizer.average=0.75");
  NamedTensors average = weights("plain", 0);
  for (std::int64_t turn = 1; turn <= 6; ++turn) {
    const NamedTensors now = weights("plain", turn);
    for (std::size_t i = 0; i < now.size(); ++i) {
      ASSERT_EQ(average[i].first, now[i].first);
      average[i].second = is_buffer(now[i].first)
                              ? now[i].second
                              : 0.75 * average[i].second + 0.25 * now[i].second;
    }
    EXPECT_LT(distance(weights("average", turn), average), 1e-6);
    EXPECT_GT(distance(weights("average", turn), now), 1e-4);
    // What trains on isn't touched.
    EXPECT_EQ(difference(own("average", turn), own("plain", turn)), "");
  }
}

/// The tail has the last three of six turns, or all: a mean of the weights
/// after their updates.
TEST_P(AveragedWeights, AreTheMeanOfThoseOfTheTailOfARunWithout) {
  const std::string more = std::string(GetParam()) + " turns=6 ";
  run("plain", more);
  for (const auto& [share, begin] : {std::pair("0.5", 4), std::pair("1", 1)}) {
    run("average", more + "optimizer.tail_average=" + share + " --overwrite");
    NamedTensors sum;
    for (std::int64_t turn = 1; turn <= 6; ++turn) {
      const NamedTensors now = weights("plain", turn);
      if (turn <= begin) sum = copies_of(now);
      for (std::size_t i = 0; i < now.size(); ++i)
        if (is_buffer(now[i].first))
          sum[i].second = now[i].second;
        else if (turn > begin)
          sum[i].second = sum[i].second + now[i].second;
      NamedTensors mean = sum;
      const auto updates = std::max<std::int64_t>(turn - begin + 1, 1);
      for (auto& [name, tensor] : mean)
        if (!is_buffer(name)) tensor = tensor / updates;
      EXPECT_LT(distance(weights("average", turn), mean), 1e-6)
          << share << " at " << turn;
      if (turn > begin) {
        EXPECT_GT(distance(weights("average", turn), now), 1e-4);
      }
      EXPECT_EQ(difference(own("average", turn), own("plain", turn)), "");
    }
  }
}

/// A mean over the second half of the longer run knows nothing of the shorter.
TEST_P(AveragedWeights, MeansOfATailGoOnAfterAResume) {
  for (const char* share : {"0.5", "1"}) {
    const std::string more = std::string(GetParam()) +
                             " --overwrite optimizer.tail_average=" + share +
                             " ";
    run("whole", more + "turns=10");
    run("parts", more + "turns=5");
    const Outcome resumed =
        sluice("run --resume " + path("parts") + " turns=10");
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(difference(weights("whole", 10), weights("parts", 10)), "")
        << share;
    EXPECT_GT(distance(weights("whole", 10), own("whole", 10)), 1e-4) << share;
  }
}

TEST_P(AveragedWeights, AreEvaluatedAndGoOnAfterAResume) {
  const std::string more = std::string(GetParam()) + " optimizer.average=0.75 ";
  const std::string whole = run("whole", more + "turns=10");
  run("parts", more + "turns=5");
  const Outcome resumed = sluice("run --resume " + path("parts") + " turns=10");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(weights("whole", 10), weights("parts", 10)), "");
  EXPECT_EQ(difference(own("whole", 10), own("parts", 10)), "");
  const auto said = records_of(whole, "evaluation");
  ASSERT_FALSE(said.empty());
  const Outcome evaluated =
      sluice("eval " + whole + "/checkpoints/turn-000010");
  EXPECT_THAT(
      evaluated.text,
      HasSubstr(fmt::format("loss {:.4f}", said.back().number("loss", 0))));
}

INSTANTIATE_TEST_SUITE_P(Runs, AveragedWeights,
                         testing::Values("engine=virtual",
                                         "engine=virtual replicas.count=2",
                                         "engine=virtual replicas.count=2 "
                                         "replicas.shard=true",
                                         "engine=processes"));

TEST_F(AveragedWeights, BeginWithTheInitialWeights) {
  run("first", "engine=virtual turns=4");
  run("then", "engine=virtual turns=1 optimizer.average=0.5 initial_weights=" +
                  path("first/checkpoints/turn-000004"));
  EXPECT_EQ(difference(weights("then", 0), weights("first", 4)), "");
}

TEST_F(AveragedWeights, WithoutDecayAreTheWeights) {
  run("plain", "engine=virtual turns=4");
  run("none", "engine=virtual turns=4 optimizer.average=0");
  EXPECT_EQ(difference(weights("plain", 4), weights("none", 4)), "");
}

}  // namespace sluice::averaged_weights_test
