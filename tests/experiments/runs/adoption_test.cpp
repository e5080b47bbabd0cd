// Replicas that adopt the weights of the best one after some epochs: nearest
// neighbours training (specification: parallel, section B).
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::adoption_test {

using replica_runs::trained;
using testing::HasSubstr;
using testing::Not;

constexpr int kReplicas = 4;

constexpr const char* kOneBlock = "blocks = 1\n";
constexpr const char* kTwoBlocks = "blocks = ['0', '1-']\n";

/// An epoch has 40 batches, 10 turns of four replicas.
std::string lines_of(const std::string& blocks, const std::string& keys,
                     int turns) {
  return blocks +
         "batch_size = 8\nlog_every = 1\nevaluate_every = 0.0\n"
         "model = {hidden = [24, 20], batch_norm = true}\n"
         "optimizer = {name = 'sgd', lr = 0.05, momentum = 0.5}\n"
         "replicas = {count = 4, policy = 'neighbours'" +
         keys + "}\nturns = " + std::to_string(turns) + "\n";
}

constexpr const char* kEachEpoch = ", adopt_every = 1";

/// The sum of the losses of each replica's turns.
class Losses final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "train")
      sums[static_cast<int>(record.number("replica", 0))] +=
          record.number("loss", 0);
  }
  std::map<int, double> sums;
};

class AdoptionIn : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Blocks, AdoptionIn,
                         testing::Values(kOneBlock, kTwoBlocks));

TEST_P(AdoptionIn, GivesAllTheWeightsOfTheLowestLoss) {
  const auto losses = std::make_shared<Losses>();
  const auto apart = trained(lines_of(GetParam(), "", 10), {}, losses);
  ASSERT_EQ(losses->sums.size(), std::size_t{kReplicas});
  int best = 1;
  for (const auto& [replica, sum] : losses->sums)
    if (sum < losses->sums.at(best)) best = replica;
  const auto together = trained(lines_of(GetParam(), kEachEpoch, 10));
  for (int r = 1; r <= kReplicas; ++r) {
    const auto i = static_cast<std::size_t>(r) - 1;
    EXPECT_EQ(
        difference(together[i], apart[static_cast<std::size_t>(best) - 1]), "")
        << "replica " << r << ", the best is " << best;
    if (r != best) {
      EXPECT_GT(distance(apart[i], together[i]), 1e-4) << r;
    }
  }
}

TEST(Adoption, IsOverUntilTheNextEpochEnds) {
  const auto before = trained(lines_of(kOneBlock, kEachEpoch, 9));
  EXPECT_EQ(difference(before[0], trained(lines_of(kOneBlock, "", 9))[0]), "");
  const auto between = trained(lines_of(kOneBlock, kEachEpoch, 19));
  EXPECT_GT(distance(between[0], between[1]), 1e-5);
  const auto after = trained(lines_of(kOneBlock, kEachEpoch, 20));
  EXPECT_EQ(difference(after[0], after[1]), "");
  EXPECT_GT(distance(after[0], trained(lines_of(kOneBlock, "", 20))[0]), 1e-5);
}

// Losses reach the centre: an epoch is 40 batches, which 10 turns bring.
TEST(Adoption, AtACentreComesWithTheBatchesOfAnEpoch) {
  const std::string free = "schedule = 'free'\n";
  const auto at = [&](const std::string& keys, int turns) {
    return trained(free +
                   lines_of(kOneBlock, ", deal = 'shares'" + keys, turns));
  };
  EXPECT_EQ(difference(at(kEachEpoch, 9)[0], at("", 9)[0]), "");
  const auto together = at(kEachEpoch, 11);
  const auto apart = at("", 11);
  EXPECT_GT(distance(together[0], apart[0]), 1e-5);
  // The statistics stay each replica's own.
  const auto between = [](const NamedTensors& one, const NamedTensors& other) {
    return distance({one.front()}, {other.front()});
  };
  EXPECT_LT(between(together[0], together[2]), between(apart[0], apart[2]));
}

TEST(Adoption, IsAnExchangeOfItsOwnAfterAnUpdate) {
  const Experiment experiment =
      small_experiment(lines_of(kOneBlock, kEachEpoch, 20));
  const std::string text = to_text(
      actions_of(experiment.plans.at(0).blocks.at(2), {.end_turn = 20}));
  EXPECT_THAT(text, HasSubstr("U9 X9.4 S9.4 F10"));
  EXPECT_THAT(text, HasSubstr("U19 X19.4 S19.4"));
  EXPECT_THAT(text, HasSubstr("U8 F9"));
  // Windows of three turns pass the end of the epoch.
  const Experiment windows = small_experiment(
      lines_of(kOneBlock, kEachEpoch, 21) + "accumulate.batches = 3\n");
  const std::string passing =
      to_text(actions_of(windows.plans.at(0).blocks.at(0), {.end_turn = 21}));
  EXPECT_THAT(passing, HasSubstr("U11 X11.4 S11.4"));
  EXPECT_THAT(passing, HasSubstr("U20 X20.4 S20.4"));
  EXPECT_THAT(passing, Not(HasSubstr("X8.4")));
}

using AdoptionRun = Program;

/// Two turns to an epoch: two or three replicas would stay equal anyway.
constexpr const char* kConfig =
    "blocks = 2\nevaluate_every = 0\n"
    "model = {hidden = [24, 20], dropout = 0.2}\n"
    "optimizer = {lr = 0.02, momentum = 0.5}\n"
    "replicas = {count = 4, policy = 'neighbours', adopt_every = 1}\n";

TEST_F(AdoptionRun, HasTheSameBitsOnEveryEngine) {
  const std::string config = write("config.toml", config_with(kConfig));
  const NamedTensors one = weights_on("virtual", config);
  for (const char* engine : {"threads", "processes"})
    EXPECT_EQ(difference(weights_on(engine, config), one), "") << engine;
}

/// What a replica has lost so far in the epoch is in its checkpoint.
TEST_F(AdoptionRun, GoesOnAfterAnInterruption) {
  const std::string config = write("config.toml", config_with(kConfig));
  const auto run = [&](const std::string& dir, const char* turns) {
    const Outcome outcome = sluice("run " + config + " engine=virtual --dir " +
                                   path(dir) + " turns=" + turns);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  };
  const auto at_end = [&](const std::string& dir) {
    return load_weights(checkpoint_folder(path(dir) + "/checkpoints", 11));
  };
  run("whole", "11");
  run("part", "7");
  const Outcome resumed = sluice("run --resume " + path("part") + " turns=11");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(at_end("part"), at_end("whole")), "");
}

}  // namespace sluice::adoption_test
