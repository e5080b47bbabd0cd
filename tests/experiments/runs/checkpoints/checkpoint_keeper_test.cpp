#include "experiments/runs/checkpoints/checkpoint_keeper.h"

#include <filesystem>
#include <limits>
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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Weights and states of a keeper's checkpoints that aren't all finite.
class KeeperOfNan : public Program {
 protected:
  KeptCheckpoint save(CheckpointKeeper& keeper, std::int64_t turn,
                      double weight, double state = 0) const {
    save_block(folder_, turn, {1}, {{"a", at::full({1}, weight)}},
               {{"a.momentum", at::full({1}, state)}});
    return keeper.saved(turn);
  }
  std::vector<std::int64_t> left() const {
    std::vector<std::int64_t> turns;
    for (const auto& [turn, found] : find_checkpoints(folder_))
      turns.push_back(turn);
    return turns;
  }
};

TEST_F(KeeperOfNan, LastSoundCheckpointStaysHoweverFewAreKept) {
  CheckpointKeeper keeper(folder_, {.every = {10}, .last = 1});
  EXPECT_EQ(save(keeper, 10, 1).not_finite, "");
  EXPECT_EQ(save(keeper, 20, kNan).not_finite,
            "tensor 'a' of block-1.safetensors");
  EXPECT_EQ(save(keeper, 30, kNan).folder, path("turn-000030.not-finite"));
  EXPECT_EQ(left(), (Turns{10}));
  save(keeper, 40, 1);
  EXPECT_EQ(left(), (Turns{40}));
}

TEST_F(KeeperOfNan, StateAloneCountsToo) {
  CheckpointKeeper keeper(folder_, {.every = {10}});
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(save(keeper, 10, 1, infinity).not_finite,
            "tensor 'a.momentum' of block-1.state.safetensors");
  EXPECT_EQ(left(), Turns{});
}

TEST_F(KeeperOfNan, BestIsNeverOneThatIsntFinite) {
  CheckpointKeeper keeper(folder_, {.best = Measure{"accuracy"}});
  keeper.evaluated({.turn = 10, .accuracy = 0.1});
  save(keeper, 10, 1);
  keeper.evaluated({.turn = 20, .accuracy = 0.9});
  save(keeper, 20, kNan);
  EXPECT_EQ(fs::read_symlink(path("best")), "turn-000010");
  EXPECT_EQ(keeper.best()->turn, 10);
  keeper.evaluated({.turn = 30, .accuracy = 0.2});
  save(keeper, 30, 1);
  EXPECT_EQ(fs::read_symlink(path("best")), "turn-000030");
}

}  // namespace sluice::checkpoint_keeper_test
