// What a head needs beside h_k travels with h_k, and only where it is needed.
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/messages/memory_channel.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/pack.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::raw_input_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2-']\n"
    "model = {name = 'resnet', depth = 8, width = 4}\n";
constexpr const char* kInfopro =
    "{policy = 'local_loss', head = {name = 'infopro', lambda1 = [1, 0.5], "
    "lambda2 = [0.5, 1]}}";
constexpr const char* kLinear = "{policy = 'local_loss'}";

std::string boundaries(const std::string& first, const std::string& second) {
  return "boundary.1 = " + first + "\nboundary.2 = " + second + "\n";
}

Experiment experiment_of(const std::string& lines) {
  return small_experiment("turns = 6\n" + std::string(kNet) + lines);
}

/// What block 1 sends up for its first batch, in training or evaluation.
Message sent_by_block_1(const Experiment& experiment, Op kind) {
  auto [mine, theirs] = memory_link(10, 10, std::chrono::seconds(10));
  const auto worker =
      make_seat(experiment, 1, {.above = std::move(mine)}, nullptr, {});
  worker->execute({kind, 0, 0});
  return *theirs.receiver->receive();
}

std::vector<std::string> names_of(const Message& message) {
  std::vector<std::string> names;
  for (const TensorView& tensor : message.tensors) names.push_back(tensor.name);
  return names;
}

const std::vector<std::string> kUsual = {"h.0", "label.0"};

TEST(RawInput, TravelsToAHeadThatNeedsIt) {
  const Message message = sent_by_block_1(
      experiment_of(boundaries(kLinear, kInfopro)), Op::forward);
  const at::Tensor input = unpack(message, kRawInput).at(0);
  EXPECT_EQ(input.sizes(), (std::vector<std::int64_t>{32, 1, 28, 28}));
  EXPECT_GE(input.min().item<double>(), 0);
  EXPECT_LE(input.max().item<double>(), 1);
  EXPECT_GT(input.max().item<double>(), 0.5);
}

TEST(RawInput, TravelsNoFurther) {
  for (const std::string& lines :
       {boundaries(kInfopro, kLinear), boundaries(kLinear, kLinear)})
    EXPECT_EQ(names_of(sent_by_block_1(experiment_of(lines), Op::forward)),
              kUsual);
}

TEST(RawInput, IsNoPartOfAnEvaluation) {
  EXPECT_EQ(names_of(sent_by_block_1(
                experiment_of(boundaries(kInfopro, kInfopro)), Op::evaluate)),
            kUsual);
}

NamedTensors weights_after(const std::string& boundaries) {
  Training training(experiment_of(boundaries));
  training.train();
  return copies_of(training.weights());
}

std::string infopro_with(const std::string& lambda1) {
  return "{policy = 'local_loss', head = {name = 'infopro', objective = "
         "'cross_entropy', lambda1 = " +
         lambda1 + ", lambda2 = [1, 1]}}";
}

TEST(InfoPro, WithoutReconstructionTrainsAsItsClassifierAlone) {
  const std::string alone = "{policy = 'local_loss', head = {name = '1c2f'}}";
  const std::string none = infopro_with("[0, 0]");
  EXPECT_EQ(difference(weights_after(boundaries(none, none)),
                       weights_after(boundaries(alone, alone))),
            "");
  const NamedTensors some =
      weights_after(boundaries(none, infopro_with("[0, 0.1]")));
  EXPECT_GT(distance(weights_after(boundaries(alone, alone)), some), 0);
}

TEST(InfoPro, WeightsAboveNeverChangeTheGradient) {
  const auto gradients = [](double factor) {
    Experiment experiment = experiment_of(boundaries(kInfopro, kInfopro));
    experiment.length.turns = 1;
    Training training(experiment);
    for (const at::Tensor& weight : values_of(training.block(2).weights()))
      if (weight.is_floating_point()) weight.variable_data().mul_(factor);
    return training.train_and_record();
  };
  Applications still = gradients(1);
  Applications moved = gradients(1.5);
  EXPECT_EQ(difference(still[1], moved[1]), "");
  EXPECT_NE(difference(still[2], moved[2]), "");
}

/// A gradient from above, delayed, and a reconstruction beside it.
constexpr const char* kDelayedBlend =
    "blocks = ['0', '1', '2-']\n"
    "model = {name = 'resnet', depth = 8, width = 4}\n"
    "boundary = {policy = 'blend', sources = [{policy = 'delayed_gradient'}, "
    "{weight = 0.5, policy = 'local_loss', head = {name = 'infopro', lambda1 = "
    "[1, 1], lambda2 = [1, 1]}}]}\n";

class RawInputOn : public Program {};

TEST_F(RawInputOn, EveryEngineGivesTheSameBits) {
  const std::string config = write("c.toml", config_with(kDelayedBlend));
  const NamedTensors expected = weights_on("virtual", config);
  EXPECT_EQ(difference(weights_on("threads", config), expected), "");
  EXPECT_EQ(difference(weights_on("processes", config), expected), "");
}

TEST_F(RawInputOn, RawInputOfBatchesInFlightSurvivesACheckpoint) {
  const std::string config = write("c.toml", config_with(kDelayedBlend));
  const auto run = [&](const std::string& dir, const std::string& more) {
    const Outcome outcome = sluice("run " + config + " engine=virtual --dir " +
                                   path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir) + "/checkpoints";
  };
  const std::string whole = run("whole", "");
  const std::string part = run("part", "turns=7 drain=false");
  const Outcome resumed =
      sluice("run --resume " + path("part") + " turns=12 drain=true");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(load_weights(checkpoint_folder(whole, 12)),
                       load_weights(checkpoint_folder(part, 12))),
            "");
}

}  // namespace sluice::raw_input_test
