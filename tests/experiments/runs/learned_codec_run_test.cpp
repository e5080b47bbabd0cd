// Runs whose codecs learn: a linear map on either side of a cut, and a book of
// vectors.
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/uses/evaluation.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::learned_codec_run_test {

using testing::HasSubstr;
using testing::IsSupersetOf;

constexpr const char* kLowRank = "{name = 'low_rank', rank = 6}";
constexpr const char* kCoded =
    "{name = 'low_rank', ratio = 0.5, code = 'int8'}";
constexpr const char* kCodebook =
    "{up = {name = 'codebook', size = 32, dim = 4}, down = 'int8'}";
constexpr const char* kAllChannels = "{name = 'low_rank', ratio = 1.0}";

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

/// Two epochs of ten turns, three blocks.
std::string net(const std::string& boundary, const std::string& codec) {
  return "blocks = 3\nmodel = {hidden = [24, 20, 16], batch_norm = true, "
         "dropout = 0.2}\noptimizer = {lr = 0.05, momentum = 0.9}\n"
         "boundary = {" +
         boundary + ", codec = " + codec + "}\n";
}

class PolicyThatLearns : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Policies, PolicyThatLearns,
    testing::Values("policy = 'backprop'", "policy = 'delayed_gradient'",
                    "policy = 'local_loss'", "policy = 'local_loss', reach = 1",
                    "policy = 'features_replay', statistics = 'replay'",
                    "policy = 'fully_decoupled'", "policy = 'penalty'",
                    "policy = 'augmented_lagrangian'",
                    "policy = 'synthetic_gradient', unlock = {hidden = 1, "
                    "width = 16, optimizer = {name = 'sgd', lr = 0.01}}"));

TEST_P(PolicyThatLearns, AllChannelsHaveTheBitsWithoutACodec) {
  EXPECT_EQ(difference(trained(net(GetParam(), kAllChannels)),
                       trained(net(GetParam(), "'none'"))),
            "");
  EXPECT_EQ(difference(trained(net(GetParam(),
                                   "{name = 'low_rank', ratio = 1.0, code = "
                                   "'bf16'}")),
                       trained(net(GetParam(), "'bf16'"))),
            "");
}

/// How far the first weights of that name have moved.
double moved(const NamedTensors& first, const NamedTensors& last,
             const std::string& name) {
  double far = -1;
  for (const auto& [own, tensor] : last)
    for (const auto& [other, before] : first)
      if (own == name && other == name)
        far = (tensor - before).abs().max().item<double>();
  return far;
}

TEST_P(PolicyThatLearns, BothHalvesOfALowRankLearn) {
  Training training(small_experiment(net(GetParam(), kLowRank)));
  const NamedTensors first = copies_of(training.weights());
  training.train();
  for (const char* name :
       {"layers.0.cut_encoder.weight", "layers.1.cut_decoder.weight"})
    EXPECT_GT(moved(first, training.weights(), name), 1e-4) << name;
}

TEST_P(PolicyThatLearns, ACodebookTrainsToFiniteWeightsOfItsOwn) {
  const NamedTensors coded = trained(net(GetParam(), kCodebook));
  for (const auto& [name, tensor] : coded)
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  EXPECT_NE(difference(coded, trained(net(GetParam(), "{down = 'int8'}"))), "");
}

class LearnedCodec : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Codecs, LearnedCodec,
                         testing::Values(kLowRank, kCoded, kCodebook));

TEST_P(LearnedCodec, GoesWithReplicas) {
  Training training(small_experiment(
      "blocks = 3\nmodel = {hidden = [24, 20, 16]}\nturns = 6\n"
      "optimizer = {lr = 0.05}\nreplicas.count = 2\nboundary = {codec = " +
      std::string(GetParam()) + "}\n"));
  training.train();
  EXPECT_EQ(difference(training.weights(1), training.weights(2)), "");
}

TEST_P(LearnedCodec, GoesWithMapsAndWeightsOfOtherTimes) {
  for (const char* weights : {"stash", "predict", "recompute"}) {
    const NamedTensors all = trained(
        "blocks = 2\nturns = 6\nmodel = {name = 'resnet', depth = 8, width = "
        "8}\noptimizer = {lr = 0.05, momentum = 0.9}\n"
        "memory_format = 'channels_last'\nboundary = {policy = "
        "'delayed_gradient', weights = '" +
        std::string(weights) + "', codec = " + GetParam() + "}\n");
    for (const auto& [name, tensor] : all)
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  }
}

// Runs of the program.

struct RunCase {
  const char* name;
  const char* engine;
  const char* boundary;
  const char* codec;
  const char* more = "";
};

class LearnedCodecResume : public Program,
                           public testing::WithParamInterface<RunCase> {
 protected:
  std::string run(const std::string& dir, const std::string& engine,
                  const std::string& more) {
    const std::string config = write(
        "config.toml", config_with(net(GetParam().boundary, GetParam().codec) +
                                   GetParam().more));
    const Outcome outcome = sluice("run " + config + " engine=" + engine +
                                   " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return checkpoint_folder(path(dir) + "/checkpoints", 16);
  }
};

TEST_P(LearnedCodecResume, GivesTheBitsOfTheUninterruptedRunOnAnyEngine) {
  const std::string whole = run("whole", "virtual", "turns=16");
  run("part", GetParam().engine, "turns=13 drain=false");
  const Outcome resumed =
      sluice("run --resume " + path("part") + " turns=16 drain=true");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  const std::string part = checkpoint_folder(path("part/checkpoints"), 16);
  EXPECT_EQ(difference(load_weights(whole), load_weights(part)), "");
  EXPECT_EQ(difference(load_state(whole), load_state(part)), "");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LearnedCodecResume,
    testing::Values(RunCase{"LowRankInProcesses", "processes",
                            "policy = 'delayed_gradient'", kCoded},
                    RunCase{"LowRankOfMicroBatches", "threads",
                            "policy = 'backprop'", kLowRank,
                            "pipeline = {micro_batches = 2, order = '1f1b'}\n"},
                    RunCase{"CodebookInVirtualTime", "virtual",
                            "policy = 'backprop'", kCodebook},
                    RunCase{"CodebookInProcesses", "processes",
                            "policy = 'delayed_gradient'", kCodebook},
                    RunCase{"CodebookOfReplicas", "threads",
                            "policy = 'local_loss'", kCodebook,
                            "replicas = {count = 2}\n"}),
    [](const auto& info) { return std::string(info.param.name); });

class LearnedCodecFaults : public Faults,
                           public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Codecs, LearnedCodecFaults,
    testing::Values("boundary.codec={name=\"low_rank\",rank=6}",
                    "boundary.codec={up={name=\"codebook\",size=32,dim=4},"
                    "down=\"int8\"}"));

TEST_P(LearnedCodecFaults, AKilledBlockLeavesNoTraceAfterTheRestart) {
  const std::string codec = fmt::format("'{}'", GetParam());
  const Outcome outcome = run_with("kill block 2 @ turn 14", codec);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", codec);
}

class LearnedCodecProgram : public Program {
 protected:
  std::string config_of(const std::string& codec) {
    return config_with(
        "blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\n"
        "boundary = {policy = 'backprop', codec = " +
        codec + "}\n");
  }
  std::string ran(const std::string& codec) {
    const Outcome run = sluice("run " + write("config.toml", config_of(codec)) +
                               " --dir " + path("run"));
    EXPECT_EQ(run.status, 0) << run.text;
    return checkpoint_folder(path("run/checkpoints"), 12);
  }
};

TEST_F(LearnedCodecProgram, EvaluatesACheckpointOfALowRankAsTheRunDid) {
  const std::string checkpoint = ran(kCoded);
  const Experiment experiment =
      read_experiment(parse_toml(config_of(kCoded), "config"), "");
  double in_run = -1;
  for (const Record& record : records_of(path("run"), "evaluation"))
    in_run = record.number("loss", -1);
  EXPECT_EQ(evaluate(experiment, checkpoint, experiment.data->test).loss(),
            in_run);
}

TEST_F(LearnedCodecProgram, ABufferHoldsPlacesInPlaceOfNumbers) {
  const auto held_with = [&](const std::string& codec) {
    const std::string config = write(
        "free.toml",
        config_with("blocks = 2\nschedule = 'free'\nmodel = {hidden = [64, "
                    "20]}\nboundary = {policy = 'local_loss', buffer = "
                    "{batches = 3}, codec = " +
                    codec + "}\n"));
    const Outcome run =
        sluice("run " + config + " --overwrite --dir " + path("free"));
    EXPECT_EQ(run.status, 0) << run.text;
    EXPECT_THAT(sluice("replay " + path("free")).text, HasSubstr("same bits"));
    double held = 0;
    for (const Record& record : records_of(path("free"), "block"))
      if (record.number("block", 0) == 2)
        held = record.number("queue_bytes", -1);
    return held;
  };
  const double plain = held_with("'none'");
  const double coded =
      held_with("{up = {name = 'codebook', size = 16, dim = 4}}");
  EXPECT_GT(coded, 0);
  EXPECT_LT(coded, plain / 3);
}

TEST_F(LearnedCodecProgram, ALowRankIsNotLeftOutLater) {
  const std::string checkpoint = ran(kLowRank);
  for (const char* change :
       {"boundary.codec=none", "blocks=1", "'blocks=[\"0-1\",\"2-\"]'",
        "'boundary.codec={name=\"low_rank\",ratio=1}'"}) {
    const Outcome other = sluice("run --resume " + path("run") + " turns=14 " +
                                 std::string(change));
    EXPECT_EQ(other.status, 2) << change << other.text;
    EXPECT_THAT(other.text, HasSubstr("cut_encoder.weight")) << change;
  }
  const std::string plain = write("plain.toml", config_of("'none'"));
  EXPECT_THAT(sluice("run " + plain + " --dir " + path("other") +
                     " initial_weights=" + checkpoint)
                  .text,
              HasSubstr("set blocks and boundary.codec as they were"));
}

TEST_F(LearnedCodecProgram, ExportsTheWeightsOfALowRank) {
  ran(kLowRank);
  const Outcome made =
      sluice("export " + path("run") + " --out " + path("out.safetensors"));
  ASSERT_EQ(made.status, 0) << made.text;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : read_safetensors(path("out.safetensors")))
    names.push_back(name);
  EXPECT_THAT(names, IsSupersetOf({"layers.0.cut_encoder.weight",
                                   "layers.1.cut_decoder.weight",
                                   "layers.0.linear.weight"}));
}

TEST_F(LearnedCodecProgram, PlansSayTheChannelsAndTheCode) {
  const Outcome plan =
      sluice("plan " + write("config.toml", config_of(kCoded)));
  EXPECT_THAT(plan.text, HasSubstr("24 channels encoded in 12"));
  EXPECT_THAT(plan.text, HasSubstr("codec int8"));
}

// What a config says.

TEST(LearnedCodecInAConfig, CountsTheBytesOfTheCode) {
  const auto bytes = [](const std::string& codec) {
    return small_experiment(
               "blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}"
               "\nboundary = {codec = " +
               codec + "}\n")
        .costs.bytes.at(0);
  };
  constexpr double kBatch = 32;
  EXPECT_EQ(bytes(kLowRank).gradient, kBatch * 6 * 4);
  EXPECT_EQ(bytes(kLowRank).activation, kBatch * (6 * 4 + 8));
  EXPECT_EQ(bytes(kCoded).gradient, kBatch * (12 + 4));
  EXPECT_EQ(bytes(kCodebook).activation,
            kBatch * (24 / 4 + 8) + 32 * 4 * 4 + 3);
}

}  // namespace sluice::learned_codec_run_test
