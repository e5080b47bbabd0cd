// Whole runs of replicas that share their weights: by the virtual clock the
// same bits each time, in threads a race that loses nothing.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::shared_replicas_test {

using testing::HasSubstr;

/// Replicas that are not equally steady.
constexpr const char* kUneven =
    "'virtual={forward = 0.01, backward = 0.02, update = 0.004, "
    "jitter = 0.3}' ";

class SharedReplicas : public Program {
 protected:
  std::string config() {
    return write(
        "config.toml",
        config_with("blocks = 2\nevaluate_every = 0\n"
                    "model = {hidden = [24, 20], dropout = 0.2}\n"
                    "optimizer = {name = 'sgd', lr = 0.1, momentum = 0.5}\n"
                    "replicas = {count = 3, policy = 'shared'}\n"));
  }
  /// The weights that all have at its end.
  NamedTensors run(const std::string& dir, const std::string& more,
                   std::int64_t turns) {
    const Outcome outcome =
        sluice("run " + config() + " --dir " + path(dir) +
               " turns=" + std::to_string(turns) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return weights_at(dir, turns);
  }
  NamedTensors weights_at(const std::string& dir, std::int64_t turn) {
    return load_weights(checkpoint_folder(path(dir) + "/checkpoints", turn));
  }
};

TEST_F(SharedReplicas, HaveTheSameBitsByTheSameClock) {
  const NamedTensors first = run("first", kUneven, 8);
  EXPECT_EQ(difference(run("again", kUneven, 8), first), "");
  const NamedTensors steady = run("steady", "", 8);
  EXPECT_GT(distance(steady, first), 1e-5);
}

/// The whole run meets there too, for a checkpoint; the part evaluates then.
TEST_F(SharedReplicas, GoOnWithTheBitsOfTheUninterruptedRun) {
  for (const std::string& method :
       {std::string(),
        std::string("boundary.policy=delayed_gradient "
                    "drain=false accumulate.batches=2 "),
        std::string(kUneven)}) {
    const std::string more = method + "checkpoint.every_turns=5 ";
    const std::string name = std::to_string(method.size());
    const NamedTensors whole = run("whole" + name, more, 10);
    const NamedTensors part = run("part" + name, more, 5);
    const Outcome resumed =
        sluice("run --resume " + path("part" + name) + " turns=10");
    EXPECT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(difference(weights_at("part" + name, 10), whole), "") << method;
    EXPECT_GT(distance(part, whole), 1e-5) << method;
  }
}

/// One that was stopped in between goes back there.
TEST_F(SharedReplicas, GoOnAgainFromACheckpointInBetween) {
  const std::string more = std::string(kUneven) + "checkpoint.every_turns=4 ";
  const NamedTensors whole = run("run", more, 10);
  std::filesystem::remove_all(
      checkpoint_folder(path("run") + "/checkpoints", 10));
  const Outcome resumed = sluice("run --resume " + path("run") + " turns=10");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(weights_at("run", 10), whole), "");
}

/// Both meet where an epoch is over: one of them evaluates there.
TEST_F(SharedReplicas, HaveTheBitsOfARunThatEvaluatesMoreOften) {
  const std::string more = std::string(kUneven) + "checkpoint.every=1 ";
  EXPECT_EQ(difference(run("often", more + "evaluate_every=1", 9),
                       run("seldom", more, 9)),
            "");
}

TEST_F(SharedReplicas, GoOnInAnotherNumber) {
  const NamedTensors three = run("run", "", 4);
  const Outcome two =
      sluice("run --resume " + path("run") + " replicas.count=2 turns=8");
  EXPECT_EQ(two.status, 0) << two.text;
  EXPECT_GT(distance(weights_at("run", 8), three), 1e-5);
}

std::map<std::string, at::Tensor> by_name(const NamedTensors& weights) {
  return {weights.begin(), weights.end()};
}

/// What cross entropy asks of the outputs' biases sums to nothing over the
/// classes, so their sum moves only if a part of an update is lost.
TEST_F(SharedReplicas, LoseNothingInThreads) {
  const auto before = by_name(run("first", "optimizer.lr=0", 1));
  const NamedTensors trained = run("threads", "engine=threads", 40);
  const auto after = by_name(trained);
  for (const char* name : {"layers.2.linear.bias", "layers.2.linear.weight"}) {
    const at::Tensor moved = after.at(name) - before.at(name);
    EXPECT_GT(moved.abs().max().item<double>(), 1e-2) << name;
    EXPECT_LT(moved.sum(0).abs().max().item<double>(), 1e-4) << name;
  }
  const Outcome more = sluice("run --resume " + path("threads") + " turns=50");
  EXPECT_EQ(more.status, 0) << more.text;
  EXPECT_GT(distance(weights_at("threads", 50), trained), 1e-5);
}

/// A turn of R replicas is R updates of the same weights.
TEST_F(SharedReplicas, LearnInThreadsAsFastAsTheyAdd) {
  run("run", "engine=threads evaluate_every=1 optimizer.lr=0.02", 60);
  const auto evaluations = records_of(path("run"), "evaluation");
  ASSERT_GT(evaluations.size(), 2U);
  EXPECT_LT(evaluations.back().number("loss", 9),
            evaluations.front().number("loss", 0));
}

TEST_F(SharedReplicas, AreNotReplayed) {
  run("run", "", 2);
  const Outcome outcome = sluice("replay " + path("run"));
  EXPECT_EQ(outcome.status, 2) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("nothing records who came first"));
}

}  // namespace sluice::shared_replicas_test
