// Issue 18, item 16: every head trains on a GPU with deterministic = true, to
// the weights of the CPU.
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/heads.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/tensors/device.h"
#include "tests/experiments/helpers/rounding.h"
#include "tests/experiments/helpers/training.h"
#include "tests/gpu/trained_on.h"

namespace sluice::heads_on_gpu_test {

constexpr int kTurns = 3;
constexpr const char* kTraining =
    "turns = 3\nbatch_size = 8\n"
    "optimizer = {lr = 0.01, momentum = 0.9}\n";

/// Maps of 28 x 28, 14 x 14 and 7 x 7.
constexpr const char* kMaps =
    "model = {name = 'resnet', depth = 8, width = 4}\n";

std::string text_in(const TemporaryFolder& folder) {
  std::string letters;
  for (int i = 0; i < 640; ++i) letters += static_cast<char>('a' + i * i % 23);
  const std::string path = folder.path() + "/text.txt";
  std::ofstream(path) << letters;
  return fmt::format("data = {{name = 'text', context = 16, file = '{}'}}\n",
                     path);
}

/// A model that the head can be at.
std::string model_for(std::string_view head, const TemporaryFolder& folder) {
  if (head == "forward_forward")
    return "model = {name = 'ff_mlp', hidden = [24, 20]}\n"
           "loss = {name = 'goodness'}\n";
  if (head == "vocabulary")
    return "model = {name = 'gpt', layers = 2, width = 16, heads = 2}\n" +
           text_in(folder);
  return kMaps;
}

/// A gradient of the deepest model: eight convolutions, each with a
/// normalisation, forward and backward; the longest sum is over all places of
/// the maps of a batch. Of their units, one may be at the edge of its ReLU.
constexpr RoundingSteps kGradient = {
    .chain = 2 * 2 * 8, .terms = 8 * 28 * 28, .edges = 1};

void expect_the_weights_of_the_cpu(const std::string& lines) {
  const NamedTensors cpu = trained_on("cpu", lines);
  EXPECT_LT(
      distance(cpu, trained_on("cuda", lines)),
      rounding_limit_of_training(untrained(lines), cpu, kTurns, kGradient));
}

class HeadOnGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(HeadOnGpu, TrainsToTheWeightsOfTheCpu) {
  const TemporaryFolder folder;
  expect_the_weights_of_the_cpu(fmt::format(
      "blocks = 2\n{}{}boundary = {{policy = 'local_loss', head = {{name = "
      "'{}'}}}}\n",
      kTraining, model_for(GetParam(), folder), GetParam()));
}

std::vector<std::string> names_of_heads() {
  std::vector<std::string> names;
  for (const HeadRow& row : heads()) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Heads, HeadOnGpu, testing::ValuesIn(names_of_heads()),
                         [](const auto& info) { return "Of_" + info.param; });

class PoolingOnGpu : public HeadOnGpu {};

/// 3 x 3 parts don't divide the maps.
TEST_P(PoolingOnGpu, TrainsToTheWeightsOfTheCpu) {
  expect_the_weights_of_the_cpu(
      fmt::format("blocks = 3\n{}{}boundary = {{policy = 'local_loss', head = "
                  "{{name = 'linear', pool = {}}}}}\n",
                  kTraining, kMaps, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Poolings, PoolingOnGpu, testing::Values("3"));

}  // namespace sluice::heads_on_gpu_test
