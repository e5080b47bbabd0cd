// PipeDream's vertical sync (methods, C4): however the network is cut, it is
// one block whose gradients are K - 1 updates old.
#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "lib/metrics/record.h"
#include "tests/experiments/helpers/training.h"
#include "tests/lib/weights/runs/delayed_sgd.h"

namespace sluice::vertical_sync_test {

struct Cut {
  int blocks;
  const char* ranges;
};
constexpr Cut kCuts[] = {{1, "1"},
                         {2, "['0-2', '3-']"},
                         {3, "['0', '1-2', '3-']"},
                         {4, "['0-1', '2', '3', '4']"}};

std::string ddg(const char* weights) {
  return std::string("boundary = {policy = 'delayed_gradient', weights = '") +
         weights + "'}\n";
}

Applications applications(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

class VerticalSync : public testing::TestWithParam<Cut> {};

TEST_P(VerticalSync, IsDelayedSgdOfOneBlock) {
  const std::string lines = delayed_net(GetParam().ranges, 0.05);
  const auto age = static_cast<std::size_t>(GetParam().blocks) - 1;
  const NamedTensors ours = trained(lines + ddg("vertical_sync"));
  EXPECT_EQ(difference(ours, DelayedSgd(lines + kBackprop).train(age)), "");
  EXPECT_NE(difference(ours, DelayedSgd(lines + kBackprop).train(age + 1)), "");
}

TEST_P(VerticalSync, IsBackpropAtLearningRateZero) {
  const std::string lines = delayed_net(GetParam().ranges, 0);
  const Applications ours = applications(lines + ddg("vertical_sync"));
  const Applications exact = applications(lines + kBackprop);
  for (const auto& [block, updates] : ours)
    EXPECT_EQ(difference(updates, exact.at(block)), "") << block;
}

/// What blocks tell of themselves.
class BlockSink final : public Sink {
 public:
  void write(const Record& record) override {
    const auto block = static_cast<int>(record.number("block", 0));
    if (record.text("kind") == "train") {
      const auto batch = static_cast<std::int64_t>(
          record.number("turn", 0) - record.number("d_batch", -1));
      versions[batch][block] =
          batch - static_cast<std::int64_t>(record.number("d_upd", -1));
    }
    if (record.text("kind") == "block")
      stashes[block] =
          record.number("stash_bytes", -1) / record.number("weights_bytes", 0);
  }
  /// With which the blocks forwarded a batch; all of them have made as many
  /// updates before its backward as there were batches before it.
  std::map<std::int64_t, std::map<int, std::int64_t>> versions;
  /// In weights of the block.
  std::map<int, double> stashes;
};

TEST_P(VerticalSync, ForwardsABatchWithOneVersionInAllBlocks) {
  const auto told = std::make_shared<BlockSink>();
  Training(small_experiment(delayed_net(GetParam().ranges, 0.05) +
                            ddg("vertical_sync") + "log_every = 1\n"),
           told)
      .train();
  ASSERT_EQ(told->versions.size(), 30U);
  for (const auto& [batch, versions] : told->versions) {
    EXPECT_EQ(std::ssize(versions), GetParam().blocks);
    for (const auto& [block, version] : versions)
      EXPECT_EQ(version,
                std::max<std::int64_t>(batch - (GetParam().blocks - 1), 0))
          << "batch " << batch << ", block " << block;
  }
}

TEST_P(VerticalSync, KeepsAsManyVersionsAsThereAreBlocks) {
  const auto told = std::make_shared<BlockSink>();
  Training(small_experiment(delayed_net(GetParam().ranges, 0.05) +
                            ddg("vertical_sync")),
           told)
      .train();
  EXPECT_EQ(std::ssize(told->stashes), GetParam().blocks);
  for (const auto& [block, versions] : told->stashes)
    EXPECT_EQ(versions, GetParam().blocks - 1) << "beside today's, " << block;
}

INSTANTIATE_TEST_SUITE_P(Blocks, VerticalSync, testing::ValuesIn(kCuts),
                         [](const auto& info) {
                           return std::to_string(info.param.blocks);
                         });

TEST(VerticalSync, IsNotStashOnceWeightsMove) {
  const std::string lines = delayed_net(kCuts[2].ranges, 0.05);
  EXPECT_NE(difference(applications(lines + ddg("vertical_sync")).at(1),
                       applications(lines + ddg("stash")).at(1)),
            "");
}

/// Delays of two turns between blocks too, in either order, and with windows.
TEST(VerticalSync, GoesWithOtherDelays) {
  for (const char* order : {"A", "B"}) {
    const auto told = std::make_shared<BlockSink>();
    Training(
        small_experiment(delayed_net(kCuts[2].ranges, 0.05) +
                         "boundary = {policy = 'fully_decoupled', order = '" +
                         order + "', weights = 'vertical_sync'}\n"),
        told)
        .train();
    for (const auto& [batch, versions] : told->versions)
      for (const auto& [block, version] : versions)
        EXPECT_EQ(version, versions.at(1)) << order << batch << block;
  }
  const NamedTensors in_three =
      trained(delayed_net(kCuts[2].ranges, 0.05) + ddg("vertical_sync") +
              "accumulate = {batches = 2}\n");
  EXPECT_NE(difference(in_three, trained(delayed_net("1", 0.05) + kBackprop +
                                         "accumulate = {batches = 2}\n")),
            "");
}

TEST(VerticalSync, BeginsAboveACutAnew) {
  const std::string rest =
      delayed_net(kCuts[2].ranges, 0.05) +
      "boundary = {1 = {policy = 'local_loss'}, 2 = {policy = "
      "'delayed_gradient', weights = 'vertical_sync'}}\n";
  const auto told = std::make_shared<BlockSink>();
  Training(small_experiment(rest), told).train();
  for (const auto& [batch, versions] : told->versions) {
    EXPECT_EQ(versions.at(1), batch);
    EXPECT_EQ(versions.at(2), std::max<std::int64_t>(batch - 1, 0));
    EXPECT_EQ(versions.at(3), versions.at(2));
  }
}

/// A phase begins with an empty pipe, at the weights that it finds.
TEST(VerticalSync, BeginsInAPhaseOfATimetableAnew) {
  const std::string before = delayed_net(kCuts[2].ranges, 0.05) +
                             "boundary = {policy = 'backprop'}\n"
                             "timetable = [{turn = 10, ";
  const auto told = std::make_shared<BlockSink>();
  Training(small_experiment(before +
                            "boundary = {policy = 'delayed_gradient', weights "
                            "= 'vertical_sync'}}]\n"),
           told)
      .train();
  for (const auto& [batch, versions] : told->versions)
    for (const auto& [block, version] : versions)
      EXPECT_EQ(version,
                batch < 10 ? batch : std::max<std::int64_t>(batch - 2, 10))
          << batch << ", block " << block;
}

}  // namespace sluice::vertical_sync_test
