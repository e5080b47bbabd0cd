// `sluice verify`: the bits don't depend on what runs the blocks, and it would
// be seen if they did.
#include "experiments/runs/uses/verify.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/hashes.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/methods.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::verify_test {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

constexpr const char* kMlp =
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9, weight_decay = 0.01}\n";

std::string blocks(int count) {
  return "blocks = " + std::to_string(count) + "\n";
}

VerifyResult verified(const std::string& lines,
                      const VerifyOptions& options = {.turns = 6}) {
  VerifyOptions all = options;
  all.program = SLUICE_PROGRAM;
  all.read = [&](const std::vector<std::string>& overrides) {
    ConfigNode config = parse_toml(config_with(lines), "test.toml");
    for (const std::string& text : overrides) apply_override(config, text);
    return read_experiment(config, "");
  };
  StopSignals signals;
  return verify(all, signals);
}

/// What verify says of each engine, a line each.
std::string differences(const VerifyResult& verified) {
  std::string lines;
  for (const VerifiedEngine& one : verified.engines)
    lines += one.engine + ": " + one.difference + "\n";
  return lines;
}

constexpr const char* kSame = "virtual: \nthreads: \nprocesses: \n";

class VerifyMethod : public testing::TestWithParam<MethodUnderTest> {};

TEST_P(VerifyMethod, HasTheSameBitsInThreeBlocks) {
  EXPECT_EQ(differences(verified(blocks(3) + kMlp +
                                 "boundary = " + GetParam().boundary + "\n")),
            kSame);
}

INSTANTIATE_TEST_SUITE_P(Methods, VerifyMethod, testing::ValuesIn(methods()),
                         [](const auto& info) { return info.param.name; });

class VerifyCodec : public testing::TestWithParam<const char*> {};

// An epoch has ten turns: in the last two samples come again.
TEST_P(VerifyCodec, HasTheSameBitsInThreeBlocks) {
  EXPECT_EQ(differences(verified(
                blocks(3) + kMlp + "boundary = {codec = " + GetParam() +
                    ", 1 = {policy = 'delayed_gradient'}, 2 = {policy = "
                    "'synthetic_gradient'}}\n",
                {.turns = 12})),
            kSame);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, VerifyCodec,
    testing::Values("'fp16'", "'bf16'", "'int8'", "'hadamard4'",
                    "{name = 'top_k', ratio = 0.2}",
                    "{up = {name = 'delta', bits = 4}, down = 'top_k'}",
                    "{up = {name = 'delta', bits = 8}, down = 'int8'}"));

class VerifyCut : public testing::TestWithParam<int> {
 protected:
  std::string with(const std::string& policy) const {
    return differences(verified(blocks(GetParam()) + kMlp +
                                "boundary = {policy = '" + policy + "'}\n"));
  }
};

TEST_P(VerifyCut, CutOfBackpropHasTheSameBits) {
  EXPECT_EQ(with("backprop"), kSame);
}

TEST_P(VerifyCut, CutOfDelayedGradientsHasTheSameBits) {
  EXPECT_EQ(with("delayed_gradient"), kSame);
}

TEST_P(VerifyCut, CutOfLocalLossesHasTheSameBits) {
  EXPECT_EQ(with("local_loss"), kSame);
}

INSTANTIATE_TEST_SUITE_P(Blocks, VerifyCut, testing::Values(2, 4),
                         testing::PrintToStringParamName());

class VerifyOrder : public testing::TestWithParam<const char*> {};

TEST_P(VerifyOrder, HasTheSameBitsInThreeBlocks) {
  for (const std::string& net :
       {std::string(kMlp), std::string("model = {name = 'conv3', channels "
                                       "= 8, dropout = 0.2}\n")})
    EXPECT_EQ(differences(verified(blocks(3) + net +
                                   "boundary = {policy = 'backprop'}\n"
                                   "pipeline = {micro_batches = 4, order = '" +
                                   GetParam() + "'}\n")),
              kSame)
        << net;
}

INSTANTIATE_TEST_SUITE_P(Pipelines, VerifyOrder,
                         testing::Values("gpipe", "1f1b", "zb-h1"));

TEST(VerifyPipeline, VerifyPipelineOfExecutorsWithSeveralBlocksHasTheSameBits) {
  EXPECT_EQ(differences(verified(
                blocks(4) + kMlp +
                "boundary = {policy = 'backprop'}\npipeline = {micro_batches = "
                "4, order = 'interleaved', executors = 2}\n")),
            kSame);
}

TEST(VerifyPipeline, WithoutAFlushHasTheSameBits) {
  EXPECT_EQ(differences(verified(
                blocks(3) + kMlp +
                "drop_last = true\nboundary = {policy = 'backprop'}\n"
                "pipeline = {micro_batches = 4, order = '1f1b', flush = false, "
                "weights = 'double_buffer'}\n")),
            kSame);
}

TEST(VerifyModel, ConvNetWithBatchNormAndDropoutHasTheSameBits) {
  EXPECT_EQ(differences(verified(
                "blocks = 3\nmodel = {name = 'conv3', channels = 8, dropout = "
                "0.2}\nboundary = {policy = 'fully_decoupled'}\n")),
            kSame);
}

class VerifyText : public Program {};

TEST_F(VerifyText, GptHasTheSameBits) {
  std::string letters;
  for (int i = 0; i < 640; ++i) letters += static_cast<char>('a' + i * i % 23);
  const std::string config =
      write("gpt.toml",
            "turns = 6\nbatch_size = 4\nthreads = 1\nblocks = 3\n"
            "model = {name = 'gpt', layers = 3, width = 32, heads = 4, "
            "dropout = 0.1}\nboundary = {policy = 'delayed_gradient'}\n"
            "data = {name = 'text', context = 16, file = '" +
                write("text.txt", letters) + "'}\n");
  const Outcome outcome = sluice("verify " + config);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("processes       3      6  same bits"));
}

TEST(VerifyChanged, SeedInThreadsIsReported) {
  const VerifyResult found =
      verified(blocks(3) + kMlp, {.turns = 6, .changes = {"threads:seed=2"}});
  EXPECT_FALSE(found.is_same());
  EXPECT_EQ(found.engines[0].difference, "");
  EXPECT_THAT(found.engines[1].difference, StartsWith("turn 0, block 3: "));
  EXPECT_EQ(found.engines[2].difference, "");
}

TEST(VerifyChanged, CodecInThreadsIsReported) {
  const VerifyResult found = verified(
      blocks(3) + kMlp, {.engines = {"virtual", "threads"},
                         .turns = 6,
                         .changes = {"threads:boundary.codec='bf16'"}});
  EXPECT_FALSE(found.is_same());
}

TEST(VerifyChanged, RateOfABlockIsReportedAsThatBlocksWeight) {
  const VerifyResult found =
      verified(blocks(3) + kMlp + "boundary = {policy = 'local_loss'}\n",
               {.engines = {"virtual", "threads"},
                .turns = 6,
                .changes = {"threads:optimizer.2.lr=0.06"}});
  EXPECT_EQ(found.engines[1].difference.find("turn 0, block 2: layers."), 0U)
      << found.engines[1].difference;
}

TEST(VerifyChanged, LateDifferenceIsReportedInItsTurn) {
  const VerifyResult found = verified(
      blocks(2) + kMlp,
      {.engines = {"virtual", "threads"},
       .turns = 6,
       .changes = {"threads:optimizer.schedule={name = 'step', milestones = "
                   "[0.3], factor = 0.5}"}});
  EXPECT_THAT(found.engines[1].difference, StartsWith("turn 3, block 2: "));
}

TEST(Verify, RunsNoMoreTurnsThanAnEpochHas) {
  const std::vector<std::string> engines = {"virtual", "threads"};
  EXPECT_EQ(verified(kMlp, {.engines = engines, .turns = 3}).turns, 3);
  EXPECT_EQ(verified(kMlp, {.engines = engines, .turns = 99}).turns, 10);
}

std::string refusal(const VerifyOptions& options) {
  try {
    verified(blocks(2) + kMlp, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Verify, WantsChangesOfAnEngine) {
  EXPECT_THAT(
      refusal({.engines = {"virtual", "threads"}, .changes = {"seed=2"}}),
      HasSubstr("ENGINE:KEY=VALUE"));
}

Hashes hashes_of(std::vector<std::pair<int, std::string>> turns) {
  Hashes hashes;
  for (const auto& [turn, hash] : turns)
    hashes[{1, 1}].push_back(
        {{.turn = turn, .time = turn * 0.1}, {{"w", hash}}});
  return hashes;
}

TEST(Hashes, ThatAreMissingAreADifference) {
  const Hashes two = hashes_of({{0, "a"}, {1, "b"}});
  EXPECT_EQ(first_difference(two, two), std::nullopt);
  EXPECT_EQ(first_difference(two, hashes_of({{0, "a"}})),
            (HashDifference{1, 1, "2 updates against 1"}));
  EXPECT_EQ(first_difference(two, {}),
            (HashDifference{0, 1, "2 updates against 0"}));
  EXPECT_EQ(first_difference(two, hashes_of({{0, "a"}, {1, "c"}})),
            (HashDifference{1, 1, "w"}));
}

class VerifyProgram : public Program {};

TEST_F(VerifyProgram, PrintsATableAndExitsWithTheVerdict) {
  const std::string config =
      write("config.toml", config_with(blocks(2) + kMlp));
  const std::string command =
      "verify " + config + " --turns 3 --engines virtual,threads";
  const Outcome same = sluice(command);
  EXPECT_EQ(same.status, 0) << same.text;
  EXPECT_THAT(same.text, HasSubstr("threads         2      3  same bits"));
  const Outcome changed = sluice(command + " --change threads:seed=2");
  EXPECT_EQ(changed.status, 1) << changed.text;
  EXPECT_THAT(changed.text, HasSubstr("differs at turn 0, block 2: "));
}

TEST_F(VerifyProgram, RunsThatAreNotVerifiedWriteNoHashes) {
  const std::string config =
      write("config.toml", config_with(blocks(2) + kMlp));
  weights_on("virtual", config);
  // Two runs without hashes would be equal, whatever they did.
  EXPECT_THAT([this] { read_hashes(path("virtual")); },
              ThrowsMessage<UserError>(HasSubstr("has no hashes")));
}

}  // namespace sluice::verify_test
