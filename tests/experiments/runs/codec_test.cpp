// Codecs on the boundaries of runs: what goes through them and what doesn't,
// what it costs, and what a config may say.
#include "lib/boundaries/codecs/codec.h"

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

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
#include "lib/boundaries/codecs/coded.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "lib/tensors/pack.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::codec_test {

using testing::HasSubstr;

constexpr const char* kNet =
    "blocks = ['0', '1-']\n"
    "model = {hidden = [24, 20], batch_norm = true, dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9}\n";

Experiment experiment_of(const std::string& lines, int turns = 10) {
  return small_experiment(kNet + lines + fmt::format("turns = {}\n", turns));
}

std::string boundary(const std::string& policy, const std::string& codec) {
  return "boundary = {policy = '" + policy + "', codec = '" + codec + "'}\n";
}

std::unique_ptr<Training> trained(const std::string& lines, int turns = 10) {
  auto training = std::make_unique<Training>(experiment_of(lines, turns));
  training->train();
  return training;
}

/// A block alone; what it sends lies in `above` and `below`.
struct LoneBlock {
  LoneBlock(const Experiment& experiment, int block) {
    const auto link = [] {
      return memory_link(10, 10, std::chrono::seconds(10));
    };
    Ends ends;
    if (block > 1) std::tie(below, ends.below) = link();
    if (block < experiment.blocks()) std::tie(ends.above, above) = link();
    worker = make_seat(experiment, block, std::move(ends), nullptr, {});
  }
  Message sent_up() { return *above.receiver->receive(); }
  Message sent_down() { return *below.receiver->receive(); }

  Link below;
  Link above;
  std::unique_ptr<Seat> worker;
};

Message first_activation(const Experiment& experiment, Op op = Op::forward) {
  LoneBlock block(experiment, 1);
  block.worker->execute({op, 0, 0});
  return block.sent_up();
}

Message first_gradient(const Experiment& experiment) {
  LoneBlock block(experiment, 2);
  block.below.sender->send(first_activation(experiment));
  for (const Op op : {Op::forward, Op::backward})
    block.worker->execute({op, 0, 0});
  return block.sent_down();
}

std::map<std::string, DType> types_in(const Message& message) {
  std::map<std::string, DType> types;
  for (const TensorView& tensor : message.tensors)
    types[tensor.name] = tensor.dtype;
  return types;
}

class CodecOnABoundary : public testing::TestWithParam<const char*> {
 protected:
  std::string with(const std::string& policy) const {
    return boundary(policy, GetParam());
  }
};

TEST_P(CodecOnABoundary, ChangesWhatBothBlocksLearnUnderBackprop) {
  const auto plain = trained(boundary("backprop", "none"));
  const auto coded = trained(with("backprop"));
  for (const int block : {1, 2})
    EXPECT_NE(difference(coded->block(block).weights(),
                         plain->block(block).weights()),
              "");
}

// By then a ReLU has not had the time to take another side.
TEST_P(CodecOnABoundary, ChangesTheFirstStepButSlightly) {
  const auto plain = trained(boundary("backprop", "none"), 1);
  const auto coded = trained(with("backprop"), 1);
  EXPECT_LT(distance(coded->weights(), plain->weights()), 0.01);
}

TEST_P(CodecOnABoundary, ChangesOnlyTheBlockAboveUnderALocalLoss) {
  const auto plain = trained(boundary("local_loss", "none"));
  const auto coded = trained(with("local_loss"));
  EXPECT_EQ(difference(coded->block(1).weights(), plain->block(1).weights()),
            "");
  EXPECT_NE(difference(coded->block(2).weights(), plain->block(2).weights()),
            "");
}

TEST_P(CodecOnABoundary, SendsTheActivationsOfTrainingAndOfEvaluation) {
  for (const Op op : {Op::forward, Op::evaluate}) {
    const Experiment coded = experiment_of(with("backprop"));
    const Message plain =
        first_activation(experiment_of(boundary("backprop", "none")), op);
    const Codec* codec = codecs_above(coded, 1).up.get();
    const at::Tensor received =
        unpack(first_activation(coded, op), "h", codec).at(0);
    const Tensors sent = unpack(plain, "h");
    EXPECT_TRUE(received.equal(as_received(sent, codec).at(0)));
    EXPECT_FALSE(received.equal(sent.at(0)));
  }
}

TEST_P(CodecOnABoundary, SendsGradientsToo) {
  EXPECT_FALSE(
      types_in(first_gradient(experiment_of(boundary("backprop", "none"))))
          .contains("gradient.0.0"));
  EXPECT_TRUE(types_in(first_gradient(experiment_of(with("backprop"))))
                  .contains("gradient.0.0"));
}

TEST_P(CodecOnABoundary, SendsTheBytesThatWerePredicted) {
  const Experiment experiment = experiment_of(with("backprop"));
  const MessageBytes& bytes = experiment.costs.bytes.at(0);
  EXPECT_EQ(bytes.activation,
            static_cast<double>(payload_bytes(first_activation(experiment))));
  EXPECT_EQ(bytes.evaluation, static_cast<double>(payload_bytes(
                                  first_activation(experiment, Op::evaluate))));
  EXPECT_EQ(bytes.gradient,
            static_cast<double>(payload_bytes(first_gradient(experiment))));
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecOnABoundary,
                         testing::Values("fp16", "bf16", "int8", "hadamard4"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(CodecOfABoundary, LeavesLabelsAndNormsAlone) {
  const Experiment experiment = small_experiment(
      "blocks = 2\nmodel = {hidden = [24, 20]}\nboundary = {codec = 'int8'}\n"
      "optimizer = {lr = 0.05, clip = {norm = 1, scope = 'model'}}\n");
  EXPECT_EQ(types_in(first_activation(experiment)).at("label.0"), DType::int64);
  const auto types = types_in(first_gradient(experiment));
  EXPECT_EQ(types.at("norm.0"), DType::float64);
  EXPECT_EQ(types.at("gradient.0.0"), DType::int8);
}

TEST(CodecOfABoundary, LeavesUnnormalisedInputsAlone) {
  const auto types = types_in(first_activation(small_experiment(
      "blocks = ['0', '1', '2-']\nmodel = {name = 'resnet', depth = 8, width = "
      "4}\n"
      "boundary = {policy = 'local_loss', codec = 'int8', 2 = {policy = "
      "'local_loss', head = {name = 'infopro', lambda1 = [1, 0.5], lambda2 = "
      "[0.5, 1]}}}\n")));
  EXPECT_EQ(types.at("raw_input.0"), DType::float32);
  EXPECT_EQ(types.at("h.0.0"), DType::int8);
}

TEST(CodecOfABoundary, LeavesTheWeightsOfALayerAlone) {
  const auto types = types_in(first_gradient(small_experiment(
      "blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\nboundary = "
      "{policy = 'local_loss', head = {name = 'man'}, codec = 'int8'}\n")));
  EXPECT_EQ(types.at("answer.0"), DType::float32);
}

TEST(CodecOfABoundary, MakesMessagesFasterInVirtualTime) {
  const auto seconds = [](const std::string& codec) {
    const Experiment experiment = experiment_of(
        "virtual = {bandwidth = 1000}\nboundary = {codec = '" + codec + "'}\n");
    return Training(experiment).train(experiment.costs);
  };
  // An evaluation of two batches adds to the 10 turns of a batch up and down.
  EXPECT_NEAR(seconds("none"), 10 * (3.328 + 3.072) + 2 * 3.328, 1e-9);
  EXPECT_NEAR(seconds("bf16"), 10 * (1.792 + 1.536) + 2 * 1.792, 1e-9);
}

Codecs codecs_in(const std::string& boundary) {
  return small_experiment(
             "blocks = ['0', '1', '2-']\nmodel = {hidden = [24, "
             "20]}\nboundary = " +
             boundary + "\n")
      .codecs;
}

std::string name_in(const Codecs& codecs, std::size_t index) {
  const std::shared_ptr<const Codec>& codec = codecs.at(index).up;
  return codec ? std::string(codec->name()) : "none";
}

TEST(CodecInAConfig, IsOfItsBoundary) {
  const Codecs codecs = codecs_in("{2 = {codec = 'bf16'}}");
  EXPECT_EQ(name_in(codecs, 0), "none");
  EXPECT_EQ(name_in(codecs, 1), "bf16");
}

TEST(CodecInAConfig,
     CodecInAConfigOfAllBoundariesHoldsForThoseWithAPolicyOfTheirOwn) {
  const Codecs codecs = codecs_in(
      "{codec = 'int8', 1 = {policy = 'local_loss'}, 2 = {policy = 'backprop', "
      "codec = 'fp16'}}");
  EXPECT_EQ(name_in(codecs, 0), "int8");
  EXPECT_EQ(name_in(codecs, 1), "fp16");
}

TEST(CodecInAConfig, IsOneOfTheNumbersOfARun) {
  const auto numbers = [](const std::string& codec) {
    return numbers_of(experiment_of(boundary("backprop", codec)).resolved);
  };
  EXPECT_EQ(first_difference(numbers("int8"), numbers("none")),
            "boundary.1.codec is \"int8\", not \"none\"");
  EXPECT_EQ(numbers("int8"), numbers("int8"));
}

TEST(CodecInAConfig, StaysInAPhaseOfATimetable) {
  const std::string timetable =
      "timetable = [{turn = 4, boundary = {policy = 'local_loss'}}]\n";
  const auto coded = trained(boundary("backprop", "int8") + timetable);
  const auto plain = trained(boundary("backprop", "none") + timetable);
  EXPECT_NE(difference(coded->block(2).weights(), plain->block(2).weights()),
            "");
}

class CodecProgram : public Program {};

TEST_F(CodecProgram, IsListedAndPlanned) {
  EXPECT_THAT(sluice("list codecs").text, HasSubstr("bf16"));
  const std::string config = write(
      "config.toml", config_with("blocks = 2\nboundary = {codec = 'int8'}\n"));
  EXPECT_THAT(sluice("plan " + config).text,
              HasSubstr("boundary 1: backprop, codec int8"));
}

/// The loss of the last evaluation that a run wrote.
double evaluated_loss(const std::string& metrics) {
  double loss = -1;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(line);
    if (record.text("kind") == "evaluation") loss = record.number("loss", -1);
  }
  return loss;
}

/// A run of 12 turns through a codec.
class CodedRun : public Program {
 protected:
  static std::string text(const std::string& codec) {
    return config_with(
        "blocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\nboundary = {codec "
        "= " +
        codec + "}\n");
  }
  std::string metrics() const { return path("run/metrics.jsonl"); }
  void run(const std::string& codec) {
    const std::string config = write("config.toml", text(codec));
    const Outcome run = sluice("run " + config + " --dir " + path("run"));
    ASSERT_EQ(run.status, 0) << run.text;
  }
  /// The loss of its last checkpoint, evaluated with a codec.
  double loss_with(const std::string& codec) const {
    const Experiment experiment =
        read_experiment(parse_toml(text(codec), "config"), "");
    return evaluate(experiment, checkpoint_folder(path("run/checkpoints"), 12),
                    experiment.data->test)
        .loss();
  }
  /// What blocks have sent of one direction, of all blocks together.
  double sent(const std::string& key) const {
    double bytes = 0;
    std::ifstream file(metrics());
    for (std::string line; std::getline(file, line);) {
      const Record record = record_from_json(line);
      if (record.text("kind") == "block") bytes += record.number(key, 0);
    }
    return bytes;
  }
};

// As the run evaluated it, and not as a network without codecs would.
TEST_F(CodedRun, IsEvaluatedThroughItsCodec) {
  run("'int8'");
  const double in_run = evaluated_loss(metrics());
  EXPECT_EQ(loss_with("'int8'"), in_run);
  EXPECT_NE(loss_with("'none'"), in_run);
}

TEST_F(CodedRun, ThatEvaluatesExactlyIsEvaluatedWithoutItsCodec) {
  constexpr const char* kExact = "{name = 'int8', exact_evaluations = true}";
  run(kExact);
  const double in_run = evaluated_loss(metrics());
  EXPECT_EQ(loss_with("'none'"), in_run);
  EXPECT_EQ(loss_with(kExact), in_run);
  EXPECT_NE(loss_with("'int8'"), in_run);
}

TEST_F(CodedRun, CountsWhatItSendsToTrain) {
  run("'int8'");
  const MessageBytes planned =
      read_experiment(parse_toml(text("'int8'"), "config"), "")
          .costs.bytes.at(0);
  EXPECT_EQ(sent("up_bytes"), 12 * planned.activation);
  EXPECT_EQ(sent("down_bytes"), 12 * planned.gradient);
}

TEST_F(CodedRun, InZstdCountsWhatItSends) {
  run("{name = 'top_k', ratio = 0.5, zstd = 3}");
  const MessageBytes planned =
      read_experiment(
          parse_toml(text("{name = 'top_k', ratio = 0.5}"), "config"), "")
          .costs.bytes.at(0);
  EXPECT_LT(sent("up_bytes"), 12 * planned.activation);
  EXPECT_GT(sent("up_bytes"), 6 * planned.activation);
}

}  // namespace sluice::codec_test
