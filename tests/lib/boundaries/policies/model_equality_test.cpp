// As backprop_equality_test.cpp, for whole models: a ResNet-20 and language
// models, against the same networks of LibTorch's own modules.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"
#include "tests/oracles/plain_loop.h"
#include "tests/oracles/plain_models.h"

namespace sluice::model_equality_test {

/// Statistics too.
NamedTensors all_of(const PlainModel& net) {
  NamedTensors all = net.named();
  for (const auto& item : net.named_buffers())
    all.emplace_back(item.key(), item.value());
  return all;
}

void expect_bits_of_plain_loop(PlainModel& net, const std::string& config) {
  constexpr std::int64_t kTurns = 20;
  Training training(small_experiment(config + kSgd));
  take_weights(net, all_of(net), training);
  const NamedTensors first = copies_of(training.weights());
  plain_loop(
      net, [&](const at::Tensor& x, std::int64_t) { return net.forward(x); },
      training.experiment, kTurns, FusedSgd(net));
  training.train();
  EXPECT_EQ(difference(training.weights(), all_of(net)), "");
  EXPECT_GT(distance(first, training.weights()), 1e-3) << "nothing was trained";
}

class ModelInBlocks : public Program, public testing::WithParamInterface<int> {
 protected:
  std::string blocks() const {
    return "blocks = " + std::to_string(GetParam()) + "\n";
  }
  /// 640 characters that are no constant.
  std::string text() const {
    std::string letters;
    for (int i = 0; i < 640; ++i)
      letters += static_cast<char>('a' + i * i % 23);
    return write("text.txt", letters);
  }
  void expect_gpt(bool tied) {
    PlainGpt net({.layers = 3,
                  .width = 32,
                  .heads = 4,
                  .context = 16,
                  .vocabulary = 12,
                  .tied = tied});
    expect_bits_of_plain_loop(
        net, blocks() +
                 "batch_size = 4\nmodel = {name = 'gpt', layers = 3, width = "
                 "32, heads = 4, tied = " +
                 (tied ? "true" : "false") +
                 "}\ndata = {name = 'text', context = 16, file = '" + text() +
                 "'}\n");
  }
};

TEST_P(ModelInBlocks, ResNet20EndsWithTheBitsOfThePlainLoop) {
  PlainResNet net(20, 8, 1, 10);
  expect_bits_of_plain_loop(
      net, blocks() +
               "batch_size = 16\nmodel = {name = 'resnet', depth = 20, width = "
               "8}\n");
}

TEST_P(ModelInBlocks, GptEndsWithTheBitsOfThePlainLoop) {
  expect_gpt(false);
}

TEST_P(ModelInBlocks, GptWithATiedWeightEndsWithTheBitsOfThePlainLoop) {
  expect_gpt(true);
}

INSTANTIATE_TEST_SUITE_P(AnyCut, ModelInBlocks, testing::Values(1, 2, 3, 5));

}  // namespace sluice::model_equality_test
