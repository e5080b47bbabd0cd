// Networks that are planned, not trained, here: what their configs say of work,
// parameters and messages, beside sums by hand and published figures.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/comparison.h"
#include "experiments/planner/operations.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::planner::large_models_test {

using testing::HasSubstr;

std::string model_file(const std::string& name) {
  return std::string(SLUICE_TEST_FOLDER) + "/../experiments/configs/models/" +
         name + ".toml";
}

/// A network and its figures for a sample; multiply-adds forward in 10^9.
struct Network {
  const char* name;
  std::int64_t parameters;
  double multiply_adds;
  double activation_bytes;  ///< of a batch, at each boundary; 0: they differ
};

constexpr double kTextOfGpt2 = 1024;
constexpr double kTextOfLlama = 2048;

/// Products of a Transformer layer for a token: of weights, and of attention,
/// whose masked half counts.
constexpr double layer(double weights, double width, double context) {
  return weights + 2 * context * width;
}

constexpr double kGpt2 =
    kTextOfGpt2 *
    (12 * layer(12 * 768. * 768, 768, kTextOfGpt2) + 768. * 50257) * 1e-9;
constexpr double kLlama =
    kTextOfLlama *
    (22 * layer(2048. * (2048 + 2 * 256 + 2048) + 3 * 2048. * 5632, 2048,
                kTextOfLlama) +
     2048. * 32000) *
    1e-9;

// Parameters: of GPT-2 124,439,808 with one embedding, here 50,257 x 768 more;
// TinyLlama's, torchvision's and timm's as they publish them. Multiply-adds of
// ResNet-50: He et al. 2016 and torchvision; of ViT-S/16: timm.
constexpr Network kNetworks[] = {
    {"gpt2_124m", 124'439'808 + 50257 * 768, kGpt2, 32 * 1024. * 768 * 4},
    {"llama_1b", 1'100'048'384, kLlama, 16 * 2048. * 2048 * 4},
    {"resnet50_imagenet", 25'557'032, 4.09, 0},
    {"vit_s16", 22'050'664, 4.6, 64 * 197. * 384 * 4}};

Experiment experiment_of(const std::string& name) {
  return read_experiment(read_config_file(model_file(name)), "");
}

/// Layers of one name are made once: a billion weights take long.
std::int64_t parameters_of(const Model& model) {
  std::map<std::string, std::int64_t> of_name;
  std::int64_t sum = 0;
  for (const LayerSpec& spec : model.layers) {
    if (!of_name.contains(spec.name))
      for (const at::Tensor& each : spec.make()->parameters())
        of_name[spec.name] += each.numel();
    sum += of_name[spec.name];
  }
  return sum;
}

TEST(LargeModels, HaveTheWorkAndTheParametersOfThePublishedOnes) {
  for (const Network& network : kNetworks) {
    SCOPED_TRACE(network.name);
    const Experiment experiment = experiment_of(network.name);
    EXPECT_EQ(parameters_of(experiment.model), network.parameters);
    double operations = 0;
    for (const BlockCosts& block : operations_of(experiment).blocks)
      operations += block.seconds[Op::forward];
    EXPECT_NEAR(operations / (2e9 * network.multiply_adds), 1, 0.1);
    if (network.activation_bytes == 0) continue;
    for (int k = 1; k < experiment.blocks(); ++k)
      EXPECT_NEAR(by_block(experiment.costs.bytes, k).activation /
                      network.activation_bytes,
                  1, 0.1);
  }
}

/// Eight devices of 10^14 operations a second each.
class PlannedLargeModels : public Program {
 protected:
  Comparison compared(const std::vector<std::string>& methods,
                      std::vector<std::int64_t> blocks) {
    const ConfigNode config = read_config_file(model_file("gpt2_124m"));
    const Experiment own = read_experiment(config, "");
    ComparisonOptions options{.blocks = std::move(blocks)};
    options.machine =
        read_machine(write("machine.toml",
                           "[[device]]\ncount = 8\nflops = 1e14\n"
                           "[link]\nlatency = 1e-5\nbandwidth = 1e11\n"
                           "[exchange]\nlatency = 1e-5\nbandwidth = 1e11\n"));
    for (const std::string& method : methods)
      options.methods.push_back(planned_method(method, own));
    return compare_methods(config, "", options);
  }
};

constexpr double kSecondsOfOne = 3 * 2e9 * kGpt2 * 32 / 1e14;

TEST_F(PlannedLargeModels, TakeTheTimeOfTheirOperations) {
  const Comparison found = compared({"backprop", "delayed_gradient"}, {4});
  EXPECT_EQ(found.rounds, 0);
  EXPECT_NEAR(found.one_block.speed.seconds_per_turn / kSecondsOfOne, 1, 0.1);
  bool has_pipeline = false;
  for (const Prediction& row : found.rows) {
    SCOPED_TRACE(row.method);
    ASSERT_EQ(row.impossible, "");
    const double all = row.speed.speed_up;
    if (row.method == "backprop") {
      // One block at a time, and messages between them.
      EXPECT_GT(all, 0.9);
      EXPECT_LT(all, 1);
    } else if (row.method == "delayed_gradient") {
      // All at the same time: as fast as four, but for the cut.
      EXPECT_GT(all, 3);
      EXPECT_LE(all, 4);
    }
    has_pipeline = has_pipeline || row.is_pipeline;
  }
  EXPECT_TRUE(has_pipeline);
}

TEST_F(PlannedLargeModels, ArePrintedInSeconds) {
  write("machine.toml", "[[device]]\ncount = 4\nflops = 1e14\n");
  const std::string command =
      "plan " + model_file("vit_s16") + " --machine " + path("machine.toml");
  const Outcome plan = sluice(command);
  EXPECT_EQ(plan.status, 0) << plan.text;
  // 64 samples of 4.6e9 multiply-adds, forward and twice that backward.
  EXPECT_THAT(plan.text, HasSubstr("(0.01"));
  EXPECT_THAT(plan.text, HasSubstr("a message up has 18.47 MiB"));
}

}  // namespace sluice::planner::large_models_test
