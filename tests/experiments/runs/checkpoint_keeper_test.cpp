#include "experiments/runs/checkpoint_keeper.h"

#include <filesystem>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::checkpoint_keeper_test {

namespace fs = std::filesystem;

class Keeper : public Program {
 protected:
  /// Saves at these turns, after an evaluation of that accuracy; the turns that
  /// are left.
  std::vector<std::int64_t> left_after(
      KeepOptions options,
      const std::vector<std::pair<std::int64_t, double>>& turns) {
    CheckpointKeeper keeper(folder_, std::move(options));
    for (const auto& [turn, accuracy] : turns) {
      keeper.evaluated({.turn = turn, .accuracy = accuracy});
      save_block(folder_, turn, {1}, {{"a", at::ones({1})}}, {});
      keeper.saved(turn);
    }
    std::vector<std::int64_t> left;
    for (const auto& [turn, found] : find_checkpoints(folder_))
      left.push_back(turn);
    return left;
  }
};

using Turns = std::vector<std::int64_t>;

TEST_F(Keeper, KeepsAllThatWereAskedForByDefault) {
  EXPECT_EQ(left_after({.every = {10}}, {{10, 0}, {20, 0}, {30, 0}, {35, 0}}),
            (Turns{10, 20, 30, 35}));
}

TEST_F(Keeper, KeepsTheLastSoMany) {
  EXPECT_EQ(left_after({.every = {10}, .last = 2},
                       {{10, 0}, {20, 0}, {30, 0}, {40, 0}}),
            (Turns{30, 40}));
}

TEST_F(Keeper, KeepsTheBestAndPointsAtIt) {
  EXPECT_EQ(left_after({.best = Measure{"accuracy"}},
                       {{10, 0.5}, {20, 0.9}, {30, 0.7}, {40, 0.9}}),
            (Turns{20, 40}));
  EXPECT_EQ(fs::read_symlink(path("best")), "turn-000020");
}

TEST_F(Keeper, ForLossTheLeastIsTheBest) {
  CheckpointKeeper keeper(folder_, {.best = Measure{"loss"}});
  for (const auto& [turn, loss] : {std::pair{10, 2.0}, {20, 1.0}, {30, 1.5}}) {
    keeper.evaluated({.turn = turn, .loss = loss});
    save_block(folder_, turn, {1}, {{"a", at::ones({1})}}, {});
    keeper.saved(turn);
  }
  EXPECT_EQ(fs::read_symlink(path("best")), "turn-000020");
}

TEST_F(Keeper, KeepsTheInitialOneWhenAskedTo) {
  EXPECT_EQ(left_after({.every = {10}, .last = 1, .initial = true},
                       {{0, 0}, {10, 0}, {20, 0}}),
            (Turns{0, 20}));
}

}  // namespace sluice::checkpoint_keeper_test
