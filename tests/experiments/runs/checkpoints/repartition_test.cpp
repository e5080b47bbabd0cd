// A run goes on with its model cut in other places, and a checkpoint is drained
// so that it can.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::repartition_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// Four layers.
constexpr const char* kModel =
    "evaluate_every = 0.5\ncheckpoint = {every_turns = 5}\n"
    "model = {hidden = [48, 40, 32], dropout = 0.2, batch_norm = true}\n";

class Repartition : public Program {
 protected:
  /// Runs a config in the folder `dir`, with `more` on the command line.
  std::string run(const std::string& dir, const std::string& more) {
    const std::string config =
        write("config.toml", config_with(kModel + lines_));
    const Outcome outcome =
        sluice("run " + config + " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }
  /// Folder of a run as a kill in turn 5 or later leaves it.
  std::string interrupted(const std::string& dir, const std::string& more) {
    const std::string folder = run(dir, more);
    forget_after_turn_5(folder);
    return folder;
  }
  static void forget_after_turn_5(const std::string& folder) {
    fs::remove(folder + "/done");
    for (const auto& [turn, path] : find_checkpoints(folder + "/checkpoints"))
      if (turn > 5) fs::remove_all(path);
  }
  Outcome resume(const std::string& dir, const std::string& more) {
    return sluice("run --resume " + dir + " " + more);
  }
  std::string resumed(const std::string& dir, const std::string& more) {
    const Outcome outcome = resume(dir, more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return outcome.text;
  }
  void expect_refused(const std::string& dir, const std::string& more,
                      const std::string& why) {
    const std::string before = slurp(dir + "/config.toml");
    const Outcome outcome = resume(dir, more);
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(why));
    EXPECT_EQ(slurp(dir + "/config.toml"), before);
  }
  std::string lines_;
};

std::string at_turn(const std::string& dir, std::int64_t turn) {
  return checkpoint_folder(dir + "/checkpoints", turn);
}

NamedTensors of_layers(const NamedTensors& all) {
  NamedTensors own;
  for (const auto& named : all)
    if (named.first.starts_with("layers.")) own.push_back(named);
  return own;
}

/// What differs first of weights, statistics or what optimizers remember of
/// them, after turn 12.
std::string difference_at_end(const std::string& left,
                              const std::string& right) {
  const std::string text = difference(load_weights(at_turn(left, 12)),
                                      load_weights(at_turn(right, 12)));
  if (!text.empty()) return text;
  return difference(of_layers(load_state(at_turn(left, 12))),
                    of_layers(load_state(at_turn(right, 12))));
}

std::map<std::string, at::Tensor> by_name(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

class BackpropRepartition : public Repartition,
                            public testing::WithParamInterface<const char*> {};

TEST_P(BackpropRepartition,
       EndsWithTheBitsOfTheRunsThatHadEitherCutAllTheTime) {
  lines_ = std::string("boundary = {policy = 'backprop'}\noptimizer = ") +
           GetParam() + "\n";
  const std::string one = run("one", "blocks=1");
  const std::string two = run("two", "blocks=2");
  EXPECT_EQ(difference_at_end(one, two), "");
  EXPECT_EQ(difference_at_end(one, run("four", "blocks=4")), "");
  for (const auto& [before, after] :
       {std::pair("2", "4"), std::pair("4", "2"), std::pair("1", "3"),
        std::pair("3", "1"),
        std::pair("'[\"0\",\"1-\"]'", "'[\"0-2\",\"3\"]'")}) {
    const std::string part =
        interrupted("part", fmt::format("blocks={} --overwrite", before));
    EXPECT_THAT(resumed(part, fmt::format("blocks={}", after)),
                HasSubstr("Cut again"));
    EXPECT_EQ(difference_at_end(one, part), "") << before << " to " << after;
  }
}

const std::string kOptimizers[] = {"Momentum", "Adam", "ModelClip", "Muon",
                                   "Nadamw",   "Lars", "Lamb"};

INSTANTIATE_TEST_SUITE_P(
    Optimizers, BackpropRepartition,
    testing::Values(
        "{name = 'sgd', lr = 0.05, momentum = 0.9, weight_decay = 1e-3, "
        "schedule = {name = 'cosine', warmup_epochs = 0.3}}",
        "{name = 'adam', lr = 0.01, schedule = {name = 'cosine'}}",
        "{name = 'adamw', lr = 0.01, weight_decay = 0.1, groups = [{match = "
        "['*.bias'], weight_decay = 0}], clip = {norm = 0.5, scope = "
        "'model'}}",
        "{name = 'muon', lr = 0.01, weight_decay = 0.1}",
        "{name = 'nadamw', lr = 0.01, momentum_decay = 0.5}",
        "{name = 'lars', lr = 5.0, weight_decay = 1e-3, schedule = {name = "
        "'cosine'}}",
        "{name = 'lamb', lr = 0.02, weight_decay = 0.01}"),
    [](const auto& info) { return kOptimizers[info.index]; });

TEST_F(Repartition, GoesOnInProcessesWhichReadTheNewConfig) {
  lines_ = "optimizer = {name = 'adam', lr = 0.01}\n";
  const std::string whole = run("whole", "blocks=1");
  const std::string part = interrupted("part", "blocks=2 engine=processes");
  resumed(part, "blocks=4");
  EXPECT_EQ(difference_at_end(whole, part), "");
  // Before its first checkpoint with the new cut it is killed.
  forget_after_turn_5(part);
  EXPECT_THAT(resumed(part, ""), HasSubstr("Cut again"));
  EXPECT_EQ(difference_at_end(whole, part), "");
  EXPECT_THAT(resumed(part, "turns=14"), Not(HasSubstr("Cut again")));
}

TEST_F(Repartition, RestartsFromACheckpointOfTheOldCut) {
  lines_ = "optimizer = {name = 'adam', lr = 0.01}\n";
  const std::string whole = run("whole", "blocks=1");
  const std::string part = interrupted("part", "blocks=2 engine=processes");
  resumed(part, "blocks=4 on_failure=restart --inject 'kill block 3 @ turn 7'");
  EXPECT_THAT(slurp(part + "/metrics.jsonl"), HasSubstr("\"restart\""));
  EXPECT_EQ(difference_at_end(whole, part), "");
}

TEST_F(Repartition, KeepsTheHeadsOfBoundariesThatStay) {
  lines_ =
      "blocks = ['0-1', '2-3']\n"
      "boundary = {policy = 'local_loss', head = {name = 'mlp_sr'}}\n"
      "optimizer = {name = 'sgd', lr = 0.1}\n";
  const std::string part = interrupted("part", "");
  const std::string text = resumed(
      part, "'blocks=[\"0\",\"1\",\"2-3\"]' 'optimizer={name=\"sgd\",lr=0}'");
  EXPECT_THAT(text, HasSubstr("blocks of layers 0-1 2-3 become 0-0 1-1 2-3"));
  EXPECT_THAT(text, HasSubstr("heads.0 new, with first weights"));
  const auto before = by_name(load_weights(at_turn(part, 5)));
  const auto after = by_name(load_weights(at_turn(part, 12)));
  const std::string fresh =
      run("fresh",
          "'blocks=[\"0\",\"1\",\"2-3\"]' turns=1 checkpoint.initial=true");
  const auto initial = by_name(load_weights(at_turn(fresh, 0)));
  int kept = 0;
  int begun = 0;
  for (const auto& [name, tensor] : after) {
    if (!name.ends_with(".weight")) continue;
    kept += static_cast<int>(name.starts_with("heads.1."));
    begun += static_cast<int>(name.starts_with("heads.0."));
    const auto& expected = name.starts_with("heads.0.") ? initial : before;
    EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(begun, 0);
}

TEST_F(Repartition, LeavesBehindWhatWasLearnedForABoundaryThatIsGone) {
  lines_ =
      "boundary = {policy = 'synthetic_gradient'}\n"
      "optimizer = {name = 'adam', lr = 0.01}\n";
  const std::string part = interrupted("part", "blocks=4");
  EXPECT_THAT(resumed(part, "'blocks=[\"0-1\",\"2-3\"]'"),
              HasSubstr("synthesizers.0, synthesizers.2 left behind"));
  for (const auto& [name, tensor] : load_weights(at_turn(part, 12)))
    EXPECT_THAT(name, Not(testing::StartsWith("synthesizers.0.")));
}

TEST_F(Repartition, AsksWhichPolicyANewBoundaryHasWhenTheOthersDiffer) {
  lines_ =
      "blocks = ['0', '1', '2-3']\nboundary = {1 = {policy = 'backprop'}, 2 = "
      "{policy = 'local_loss'}}\n";
  const std::string part = interrupted("part", "");
  expect_refused(part, "blocks=4", "boundary 3 of the new cut, above layer 2");
  EXPECT_EQ(
      resume(part, "blocks=4 'boundary.3={policy=\"local_loss\"}'").status, 0);
  EXPECT_THAT(slurp(part + "/config.toml"),
              HasSubstr("[boundary.2]\ncodec = \"none\"\npolicy = "
                        "\"local_loss\""));
}

TEST_F(Repartition, AsksWhichOptimizerABlockHasThatIsMadeOfDifferentOnes) {
  lines_ =
      "blocks = ['0', '1', '2-3']\noptimizer = {1 = {lr = 0.1}, 2 = {lr = "
      "0.2}, 3 = {lr = 0.3}}\n";
  const std::string part = interrupted("part", "");
  expect_refused(part, "'blocks=[\"0-1\",\"2\",\"3\"]'",
                 "block 1 of the new cut, layers 0-1, has no optimizer");
  resumed(part,
          "'blocks=[\"0-1\",\"2\",\"3\"]' "
          "'optimizer.1={name=\"sgd\",lr=0.15}'");
  const std::string config = slurp(part + "/config.toml");
  EXPECT_THAT(config, HasSubstr("[optimizer.1]\nname = \"sgd\"\nlr = 0.15"));
  EXPECT_THAT(config, HasSubstr("[optimizer.2]\nname = \"sgd\"\nlr = 0.3"));
}

TEST_F(Repartition, RefusesAWindowOfAccumulationThatIsNotFull) {
  lines_ = "accumulate = {batches = 2}\n";
  const std::string part = interrupted("part", "blocks=2");
  expect_refused(part, "blocks=4", "accumulated 1 batches");
  lines_ = "accumulate = {batches = 5}\n";
  resumed(interrupted("full", "blocks=2"), "blocks=4");
}

TEST_F(Repartition, RefusesATimetableThatNamesBoundariesOfTheOldCut) {
  lines_ =
      "blocks = 2\ntimetable = [{turn = 8, boundary = {1 = {policy = "
      "'local_loss'}}}]\n";
  const std::string part = interrupted("part", "");
  expect_refused(part, "blocks=4", "timetable");
  resumed(part,
          "blocks=4 'timetable=[{turn=8,boundary={policy=\"local_loss\"}}]'");
}

TEST_F(Repartition, RefusesBatchesInFlightAndSaysWhatToDo) {
  // Only block 3 has some.
  lines_ =
      "blocks = 4\nboundary = {policy = 'local_loss', 3 = {policy = "
      "'delayed_gradient'}}\n";
  const std::string part = interrupted("part", "");
  const std::string cut = "blocks=2 'boundary={policy=\"local_loss\"}' ";
  expect_refused(part, cut, "1 of its batches are in flight");
  expect_refused(part, cut, "sluice checkpoint RUN --drain");
  const Outcome drained = sluice("checkpoint " + part + " --drain");
  EXPECT_EQ(drained.status, 0) << drained.text;
  EXPECT_THAT(drained.text, HasSubstr("drained, 1 batch is applied"));
  resumed(part, cut);
}

/// Methods that have batches in flight when a checkpoint is written.
class DrainedCheckpoint : public Repartition,
                          public testing::WithParamInterface<const char*> {};

TEST_P(DrainedCheckpoint, HasTheBitsOfARunThatEndedThere) {
  lines_ = "blocks = 3\noptimizer = {name = 'adam', lr = 0.01}\n";
  const std::string method = GetParam();
  const std::string whole = run("whole", method + " turns=7");
  const std::string part = run("part", method + " turns=7 drain=false");
  EXPECT_NE(difference(load_weights(at_turn(whole, 7)),
                       load_weights(at_turn(part, 7))),
            "");
  EXPECT_THAT(sluice("checkpoint " + part).text, HasSubstr("in flight"));
  Outcome drained = sluice("checkpoint " + part + " --drain");
  EXPECT_EQ(drained.status, 0) << drained.text;
  EXPECT_EQ(difference(load_weights(at_turn(whole, 7)),
                       load_weights(at_turn(part, 7))),
            "");
  EXPECT_EQ(
      difference(load_state(at_turn(whole, 7)), load_state(at_turn(part, 7))),
      "");
  EXPECT_TRUE(fs::exists(part + "/done")) << "it was";
  const std::string metrics = slurp(part + "/metrics.jsonl");
  drained = sluice("checkpoint " + part + " --drain");
  EXPECT_THAT(drained.text, HasSubstr("nothing is in flight"));
  EXPECT_EQ(slurp(part + "/metrics.jsonl"), metrics);
  EXPECT_THAT(sluice("checkpoint " + part).text, HasSubstr("drained"));
}

const std::string kMethods[] = {"DelayedGradient", "FeaturesReplay",
                                "FullyDecoupled", "SyntheticGradient",
                                "InProcesses"};

INSTANTIATE_TEST_SUITE_P(
    Methods, DrainedCheckpoint,
    testing::Values("boundary.policy=delayed_gradient",
                    "boundary.policy=features_replay boundary.statistics=both",
                    "boundary.policy=fully_decoupled boundary.order=A",
                    "boundary.policy=synthetic_gradient "
                    "boundary.target_delay=1 boundary.synthesizer.hidden=1",
                    "boundary.policy=delayed_gradient engine=processes"),
    [](const auto& info) { return kMethods[info.index]; });

TEST_F(Repartition, AfterADrainEveryBatchWasAppliedOnceByAllBlocks) {
  lines_ = "blocks = 3\nboundary = {policy = 'delayed_gradient'}\n";
  const std::string part = interrupted("part", "");
  EXPECT_EQ(sluice("checkpoint " + part + " --drain").status, 0);
  EXPECT_FALSE(fs::exists(part + "/done"));
  resumed(part, "blocks=2");
  std::map<std::int64_t, std::vector<std::int64_t>> applied;
  std::ifstream file(part + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(line);
    if (record.text("kind") == "train")
      applied[record.integer("block")].push_back(record.integer("batch"));
  }
  for (auto& [block, batches] : applied) {
    std::sort(batches.begin(), batches.end());
    std::vector<std::int64_t> expected;
    for (std::int64_t batch = 0; batch < (block < 3 ? 12 : 5); ++batch)
      expected.push_back(batch);
    EXPECT_EQ(batches, expected) << "block " << block;
  }
  EXPECT_EQ(applied.size(), 3U);
}

TEST_F(Repartition, ADrainThatFindsTheDiskFullChangesNothingOfTheCheckpoint) {
  if (!kFilesCanBeLimited)
    GTEST_SKIP() << "the thread sanitizer needs files of more than the limit";
  lines_ = "blocks = 3\nboundary = {policy = 'delayed_gradient'}\n";
  const std::string part = run("part", "drain=false");
  const NamedTensors before = load_weights(at_turn(part, 12));
  const Outcome outcome =
      shell(fmt::format("trap '' XFSZ; ulimit -f 40; {} checkpoint {} --drain",
                        SLUICE_PROGRAM, part));
  EXPECT_EQ(outcome.status, 2) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("can't be written"));
  EXPECT_EQ(difference(before, load_weights(at_turn(part, 12))), "");
  EXPECT_TRUE(fs::exists(part + "/done"));
  EXPECT_FALSE(fs::exists(at_turn(part, 12) + ".partial"));
  EXPECT_EQ(sluice("checkpoint " + part + " --drain").status, 0);
}

TEST_F(Repartition, RefusesACheckpointThatLacksABlock) {
  const std::string part = interrupted("part", "blocks=3");
  fs::remove(at_turn(part, 5) + "/block-2.state.safetensors");
  expect_refused(part, "blocks=2", "workers.2.first_layer");
}

TEST_F(Repartition, NoCheckpointOfARunThatRanFreeIsDrained) {
  lines_ = "boundary = {policy = 'local_loss'}\nschedule = 'free'\n";
  const Outcome outcome = sluice("checkpoint " + run("free", "") + " --drain");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("schedule = 'free'"));
}

}  // namespace sluice::repartition_test
