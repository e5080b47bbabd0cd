// Executors with a block of either half of the network: the bits of blocks that
// take turns.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::zb_v_run_test {

// An epoch is two turns of 24 samples and one of 18.
constexpr const char* kData =
    "data = {name = 'drawn_digits', train = 66, test = 8}\nbatch_size = 24\n"
    "turns = 5\noptimizer = {name = 'sgd', momentum = 0.9, lr = 0.05}\n"
    "boundary = {policy = 'backprop'}\n";

struct Shape {
  int blocks;
  int batches;
};

std::string lines(int blocks, const std::string& order, int batches) {
  std::string hidden;
  for (int layer = 1; layer < blocks; ++layer)
    hidden += fmt::format("{}{}", hidden.empty() ? "" : ", ", 12 + 2 * layer);
  return fmt::format(
      "{}blocks = {}\nmodel = {{hidden = [{}], batch_norm = true, dropout = "
      "0.2}}\npipeline = {{order = '{}', micro_batches = {}}}\n",
      kData, blocks, hidden, order, batches);
}

NamedTensors trained(const std::string& config) {
  Training training(small_experiment(config));
  training.train();
  return training.weights();
}

class ZeroBubbleVRuns : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(PipelineRuns, ZeroBubbleVRuns,
                         testing::Values(Shape{2, 2}, Shape{4, 1}, Shape{4, 4},
                                         Shape{6, 6}, Shape{8, 8}),
                         [](const auto& info) {
                           return fmt::format("{}Blocks{}Batches",
                                              info.param.blocks,
                                              info.param.batches);
                         });

TEST_P(ZeroBubbleVRuns, ZeroBubbleVHasTheBitsOfTurns) {
  const auto [blocks, batches] = GetParam();
  EXPECT_EQ(difference(trained(lines(blocks, "zb-v", batches)),
                       trained(lines(blocks, "turns", batches))),
            "");
}

}  // namespace sluice::zb_v_run_test
