// Runs whose codecs remember something of the messages before, and what a
// config may say of codecs with options.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/numbers.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/uses/evaluation.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::stateful_codec_run_test {

using testing::AllOf;
using testing::HasSubstr;

// The options of the tests here, as TOML.
// Gradients that aren't masked leave something to be held.
constexpr const char* kTopK =
    "{name = 'top_k', ratio = 0.2, mask_gradients = false}";
constexpr const char* kMasked = "{name = 'top_k', ratio = 0.2}";
constexpr const char* kDelta =
    "{up = {name = 'delta', bits = 4}, down = 'top_k'}";
constexpr const char* kAll = "{name = 'top_k', ratio = 1.0}";
constexpr const char* kExact =
    "{up = {name = 'delta', bits = 32}, down = 'none'}";

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

class PolicyWithState : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Policies, PolicyWithState,
    testing::Values("policy = 'backprop'", "policy = 'delayed_gradient'",
                    "policy = 'local_loss'", "policy = 'local_loss', reach = 1",
                    "policy = 'features_replay', statistics = 'replay'",
                    "policy = 'fully_decoupled'",
                    "policy = 'penalty', memory = 'sample'",
                    "policy = 'synthetic_gradient', unlock = {hidden = 1, "
                    "width = 16, optimizer = {name = 'sgd', lr = 0.01}}"));

TEST_P(PolicyWithState, WithAllNumbersOrBitsHasTheBitsWithoutACodec) {
  const NamedTensors plain = trained(net(GetParam(), "'none'"));
  EXPECT_EQ(difference(trained(net(GetParam(), kAll)), plain), "");
  EXPECT_EQ(difference(trained(net(GetParam(), kExact)), plain), "");
}

TEST_P(PolicyWithState, WithFewerHasOtherBits) {
  const NamedTensors plain = trained(net(GetParam(), "'none'"));
  const NamedTensors sparse = trained(net(GetParam(), kTopK));
  const NamedTensors coded = trained(net(GetParam(), kDelta));
  EXPECT_NE(difference(sparse, plain), "");
  EXPECT_NE(difference(trained(net(GetParam(), kMasked)), plain), "");
  EXPECT_NE(difference(coded, plain), "");
  EXPECT_NE(difference(coded, sparse), "");
}

TEST(StatefulCodecRun, MapsInAnyLayoutHaveTheBitsWithoutACodec) {
  const auto weights = [](const std::string& codec) {
    return trained(
        "blocks = 2\nturns = 12\nmodel = {name = 'resnet', depth = 8, width = "
        "4}\nmemory_format = 'channels_last'\nboundary = {policy = "
        "'delayed_gradient', codec = " +
        codec + "}\n");
  };
  const NamedTensors plain = weights("'none'");
  EXPECT_EQ(difference(weights(kAll), plain), "");
  EXPECT_EQ(difference(weights(kExact), plain), "");
}

// What is held belongs to the rows of a micro-batch, and a sample to itself.
TEST(StatefulCodecRun, HasTheSameBitsInEveryOrderOfAPipeline) {
  for (const char* codec : {kTopK, kDelta}) {
    const std::string cut =
        net("policy = 'backprop'", codec) + "pipeline.micro_batches = 4\n";
    const NamedTensors turns = trained(cut);
    for (const char* order : {"gpipe", "1f1b", "zb-h1"})
      EXPECT_EQ(difference(trained(cut + "pipeline.order = '" + order + "'\n"),
                           turns),
                "")
          << codec << " " << order;
  }
}

// No more numbers of a row than are sent have a gradient: none is held.
TEST(StatefulCodecRun, MaskedGradientsLeaveNothingToBeHeld) {
  const auto held_by = [](const std::string& codec) {
    Training training(small_experiment(net("policy = 'backprop'", codec)));
    training.train();
    double held = 0;
    for (const auto& [name, tensor] : training.block(2).state())
      if (name.starts_with("codecs.0.down.sender."))
        held += tensor.abs().sum().item<double>();
    return held;
  };
  EXPECT_EQ(held_by(kMasked), 0);
  EXPECT_GT(held_by(kTopK), 0);
}

TEST(StatefulCodecRun, TopKGoesWithReplicas) {
  const auto replicas = [](const std::string& codec) {
    auto training = std::make_unique<Training>(small_experiment(
        "blocks = 3\nmodel = {hidden = [24, 20, 16]}\nturns = 6\n"
        "optimizer = {lr = 0.05}\nreplicas.count = 2\nboundary = {codec = " +
        codec + "}\n"));
    training->train();
    return training;
  };
  const auto sparse = replicas(kTopK);
  EXPECT_EQ(difference(sparse->weights(1), sparse->weights(2)), "");
  EXPECT_NE(difference(sparse->weights(1), replicas("'none'")->weights(1)), "");
}

/// Block 1 alone; what it sends lies in `above`.
struct FirstBlock {
  explicit FirstBlock(const Experiment& experiment) {
    Ends ends;
    std::tie(ends.above, above) =
        memory_link(100, 100, std::chrono::seconds(10));
    worker = make_seat(experiment, 1, std::move(ends), nullptr, {});
  }
  double bytes_of(const Action& action) {
    worker->execute(action);
    return static_cast<double>(payload_bytes(*above.receiver->receive()));
  }

  Link above;
  std::unique_ptr<Seat> worker;
};

TEST(StatefulCodecRun, SendsTheBytesThatWerePredicted) {
  const Experiment experiment = small_experiment(
      "blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\nturns = 20\n"
      "boundary = {policy = 'local_loss', codec = " +
      std::string(kDelta) + "}\n");
  const MessageBytes& bytes = experiment.costs.bytes.at(0);
  constexpr double kBatch = 32;
  // A sample has its number, 24 halves of a byte, a scale and a label.
  EXPECT_EQ(bytes.activation, kBatch * (4 + 12 + 4 + 8) + 3);
  EXPECT_EQ(bytes.evaluation, kBatch * (24 * 4 + 8) + 3);
  EXPECT_EQ(bytes.gradient, kBatch * 2 * (4 + 1) + 3) << "5 % of 24 numbers";
  FirstBlock block(experiment);
  for (std::int64_t turn = 0; turn < 20; ++turn) {
    const double sent = block.bytes_of({Op::forward, turn, turn});
    if (turn < 10)
      EXPECT_EQ(sent, bytes.evaluation + 4 * kBatch) << "samples are new";
    else
      EXPECT_EQ(sent, bytes.activation);
    for (const Op op : {Op::backward, Op::update})
      block.worker->execute({op, turn, turn});
  }
  EXPECT_EQ(block.bytes_of({Op::evaluate, 20, 0}), bytes.evaluation);
}

// Runs of the program.

struct RunCase {
  const char* name;
  const char* engine;
  const char* boundary;
  const char* codec;
  const char* more = "";
};

class StatefulCodecResume : public Program,
                            public testing::WithParamInterface<RunCase> {
 protected:
  std::string run(const std::string& dir, const std::string& more) {
    const std::string config = write(
        "config.toml", config_with(net(GetParam().boundary, GetParam().codec) +
                                   GetParam().more));
    const Outcome outcome =
        sluice("run " + config + " engine=" + GetParam().engine + " --dir " +
               path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return checkpoint_folder(path(dir) + "/checkpoints", 16);
  }
};

/// Names of what codecs keep, in a checkpoint.
int kept_by_codecs(const std::string& checkpoint) {
  int count = 0;
  for (const auto& [name, tensor] : load_state(checkpoint))
    if (name.starts_with("codecs.")) ++count;
  return count;
}

/// An epoch has ten turns; at turn 13 some samples have come twice.
TEST_P(StatefulCodecResume, GivesTheBitsOfTheUninterruptedRun) {
  const std::string whole = run("whole", "turns=16");
  run("part", "turns=13 drain=false");
  const Outcome resumed =
      sluice("run --resume " + path("part") + " turns=16 drain=true");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  const std::string part = checkpoint_folder(path("part/checkpoints"), 16);
  EXPECT_EQ(difference(load_weights(whole), load_weights(part)), "");
  EXPECT_EQ(difference(load_state(whole), load_state(part)), "");
  EXPECT_GT(kept_by_codecs(whole), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StatefulCodecResume,
    testing::Values(
        RunCase{"TopKInVirtualTime", "virtual", "policy = 'backprop'", kTopK},
        RunCase{"TopKOfDelayedGradients", "virtual",
                "policy = 'delayed_gradient'", kTopK},
        RunCase{"TopKOfDelayedGradientsInProcesses", "processes",
                "policy = 'delayed_gradient'", kTopK},
        RunCase{"TopKOfMicroBatches", "threads", "policy = 'backprop'", kTopK,
                "pipeline = {micro_batches = 2, order = '1f1b'}\n"},
        RunCase{"DeltaOfDelayedGradients", "virtual",
                "policy = 'delayed_gradient'", kDelta},
        RunCase{"DeltaInProcesses", "processes", "policy = 'local_loss'",
                kDelta},
        RunCase{"TopKOfReplicas", "threads", "policy = 'delayed_gradient'",
                kTopK, "replicas = {count = 2}\n"}),
    [](const auto& info) { return std::string(info.param.name); });

class StatefulCodecFaults : public Faults,
                            public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Codecs, StatefulCodecFaults,
    testing::Values(
        "boundary.codec={name=\"top_k\",ratio=0.2,mask_gradients="
        "false}",
        "boundary.codec={up={name=\"delta\",bits=4},down=\"top_k\"}"));

// Gradients are in flight when the checkpoint is taken.
TEST_P(StatefulCodecFaults, AKilledBlockLeavesNoTraceAfterTheRestart) {
  const std::string codec = fmt::format("'{}'", GetParam());
  const Outcome outcome = run_with("kill block 2 @ turn 14", codec);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", codec);
  run_undisturbed("");
  EXPECT_NE(
      difference(weights_at_end("disturbed"), weights_at_end("undisturbed")),
      "");
}

class StatefulCodecProgram : public Program {};

TEST_F(StatefulCodecProgram, EvaluatesACheckpointAsTheRunDid) {
  const auto text = [](const std::string& codec) {
    return config_with(
        "blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\n"
        "boundary = {policy = 'backprop', codec = " +
        codec + "}\n");
  };
  for (const char* codec : {kTopK, kDelta}) {
    const std::string config = write("config.toml", text(codec));
    const Outcome run =
        sluice("run " + config + " --dir " + path(codec == kTopK ? "a" : "b"));
    ASSERT_EQ(run.status, 0) << run.text;
    const Experiment experiment =
        read_experiment(parse_toml(text(codec), "config"), "");
    const std::string checkpoint = checkpoint_folder(
        path(codec == kTopK ? "a/checkpoints" : "b/checkpoints"), 12);
    const double loss =
        evaluate(experiment, checkpoint, experiment.data->test).loss();
    double in_run = -1;
    for (const Record& record :
         records_of(path(codec == kTopK ? "a" : "b"), "evaluation"))
      in_run = record.number("loss", -1);
    EXPECT_EQ(loss, in_run) << codec;
    const Experiment plain =
        read_experiment(parse_toml(text("'none'"), "config"), "");
    const bool is_exact =
        evaluate(plain, checkpoint, plain.data->test).loss() == loss;
    EXPECT_EQ(is_exact, codec == kDelta) << codec;
  }
}

TEST_F(StatefulCodecProgram, IsPlannedAndListed) {
  const std::string config =
      write("config.toml", config_with("blocks = 2\nboundary = {codec = " +
                                       std::string(kDelta) + "}\n"));
  EXPECT_THAT(sluice("plan " + config).text,
              HasSubstr("boundary 1: backprop, codec delta up, top_k down"));
  EXPECT_THAT(sluice("list codecs delta").text,
              AllOf(HasSubstr("bits"), HasSubstr("limit_mb")));
  EXPECT_THAT(sluice("help config boundary.codec.up.ratio").text,
              HasSubstr("part of the numbers"));
}

// What a config says.

const ConfigNode& codec_in(const Experiment& experiment) {
  return *experiment.resolved.find("boundary")->find("1")->find("codec");
}

Experiment with_codec(const std::string& codec, const std::string& more = "") {
  return small_experiment(
      "blocks = 2\nmodel = {hidden = [24, 20]}\nboundary = "
      "{codec = " +
      codec + "}\n" + more);
}

TEST(StatefulCodecInAConfig, ANameStaysTheNameAlone) {
  EXPECT_EQ(codec_in(with_codec("'int8'")).literal(), "\"int8\"");
  EXPECT_EQ(codec_in(with_codec("'top_k'")).literal(), "\"top_k\"");
}

TEST(StatefulCodecInAConfig, ATableIsResolvedWithItsDefaults) {
  const Experiment read = with_codec("{name = 'top_k', ratio = 0.5}");
  EXPECT_EQ(codec_in(read).literal(),
            "{name = \"top_k\", ratio = 0.5, mask_gradients = true, "
            "error_feedback = true, zstd = 0, exact_evaluations = false}");
  EXPECT_EQ(
      codec_in(with_codec("{up = {name = 'delta'}, down = 'int8'}")).literal(),
      "{up = {name = \"delta\", bits = 4, limit_mb = 1024, disk_mb = 0, "
      "zstd = 0, exact_evaluations = false}, down = \"int8\"}");
  EXPECT_EQ(codec_in(with_codec("{down = {name = 'top_k'}}")).literal(),
            "{up = \"none\", down = {name = \"top_k\", ratio = 0.05, "
            "error_feedback = true, zstd = 0}}");
  EXPECT_EQ(read_experiment(read.resolved, "").resolved, read.resolved);
}

TEST(StatefulCodecInAConfig, ItsOptionsAreAmongTheNumbersOfARun) {
  const auto numbers = [](const std::string& codec) {
    return numbers_of(with_codec(codec).resolved);
  };
  EXPECT_EQ(first_difference(numbers("{name = 'top_k', ratio = 0.5}"),
                             numbers("{name = 'top_k', ratio = 0.25}")),
            "boundary.1.codec.ratio is 0.5, not 0.25");
}

TEST(StatefulCodecInAConfig, EachDirectionHasItsOwn) {
  const BoundaryCodecs codecs =
      with_codec("{up = 'bf16', down = {name = 'hadamard4'}}").codecs.at(0);
  EXPECT_EQ(codecs.up->name(), "bf16");
  EXPECT_EQ(codecs.down->name(), "hadamard4");
  const BoundaryCodecs one = with_codec("{up = 'int8'}").codecs.at(0);
  EXPECT_EQ(one.up->name(), "int8");
  EXPECT_EQ(one.down, nullptr);
}

}  // namespace sluice::stateful_codec_run_test
