// Executors with several blocks each: the bits of blocks that take turns.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::interleaved_run_test {

// An epoch is two turns of 24 samples and one of 18.
constexpr const char* kData =
    "data = {name = 'drawn_digits', train = 66, test = 8}\nbatch_size = 24\n"
    "turns = 5\noptimizer = {name = 'sgd', momentum = 0.9, lr = 0.05}\n"
    "boundary = {policy = 'backprop'}\n";

struct Shape {
  int executors;
  int blocks;
  int batches;
};

std::string net(int blocks) {
  std::string hidden;
  for (int layer = 1; layer < blocks; ++layer)
    hidden += fmt::format("{}{}", hidden.empty() ? "" : ", ", 12 + 2 * layer);
  return fmt::format(
      "blocks = {}\nmodel = {{hidden = [{}], batch_norm = true, dropout = "
      "0.2}}\n",
      blocks, hidden);
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(kData + lines));
  training.train();
  return training.weights();
}

class Interleaved : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(PipelineRuns, Interleaved,
                         testing::Values(Shape{2, 4, 2}, Shape{2, 4, 4},
                                         Shape{2, 8, 2}, Shape{2, 8, 8},
                                         Shape{3, 6, 3}, Shape{3, 6, 6},
                                         Shape{1, 3, 2}),
                         [](const auto& info) {
                           return fmt::format("{}Executors{}Blocks{}Batches",
                                              info.param.executors,
                                              info.param.blocks,
                                              info.param.batches);
                         });

TEST_P(Interleaved, HasTheBitsOfTurns) {
  const auto [executors, blocks, batches] = GetParam();
  const NamedTensors turns =
      trained(net(blocks) +
              fmt::format("pipeline = {{micro_batches = {}}}\n", batches));
  const NamedTensors interleaved = trained(
      net(blocks) + fmt::format("pipeline = {{order = 'interleaved', executors "
                                "= {}, micro_batches = {}}}\n",
                                executors, batches));
  EXPECT_EQ(difference(interleaved, turns), "");
  EXPECT_GT(distance(trained(net(blocks)), turns), 1e-4)
      << "of batches that normalise by themselves";
}

}  // namespace sluice::interleaved_run_test
