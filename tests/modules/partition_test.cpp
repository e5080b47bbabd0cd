#include "modules/partition.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "modules/layer_costs.h"

namespace sluice::partition_test {

Model model_of(const std::vector<double>& flops) {
  Model model;
  for (const double cost : flops)
    model.layers.push_back(
        LayerSpec{.name = "layer", .make = {}, .flops = cost, .output = {1}});
  return model;
}

Model eleven_layers() {
  return model_of(std::vector<double>(11, 1.0));
}

ConfigNode number(std::int64_t blocks) {
  return ConfigNode{.value = blocks};
}

ConfigNode ranges(const std::vector<std::string>& texts) {
  ConfigNode::Array items;
  for (const std::string& text : texts)
    items.push_back(
        ConfigNode{.value = text, .origin = {.file = "run.toml", .line = 7}});
  return ConfigNode{.value = items, .origin = {.file = "run.toml", .line = 7}};
}

std::string error_of(const ConfigNode& blocks) {
  try {
    partition(blocks, eleven_layers());
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Partition, OneBlockHasAllLayers) {
  EXPECT_EQ(partition(number(1), eleven_layers()), (Partition{{0, 10}}));
}

TEST(Partition, AsManyBlocksAsLayersHaveOneEach) {
  EXPECT_EQ(partition(number(3), model_of({5, 1, 9})),
            (Partition{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(Partition, TheMostExpensiveBlockIsAsCheapAsCanBe) {
  // 7 + 2 | 5 + 3 costs 9; every other cut costs more.
  EXPECT_EQ(partition(number(2), model_of({7, 2, 5, 3})),
            (Partition{{0, 1}, {2, 3}}));
}

TEST(Partition, WhatTheMostExpensiveBlockLeavesIsBalancedToo) {
  EXPECT_EQ(partition(number(3), model_of({10, 1, 1, 1, 1})),
            (Partition{{0, 0}, {1, 2}, {3, 4}}));
}

TEST(Partition, TiesAreCutLow) {
  EXPECT_EQ(partition(number(2), model_of({1, 1, 1})),
            (Partition{{0, 0}, {1, 2}}));
}

TEST(Partition, BlocksDontEndWhereThatCostsMoreThanItSaves) {
  const std::vector<LayerCost> even = {{1, 0}, {1, 0}, {1, 0}, {1, 0}};
  EXPECT_EQ(balanced(2, even), (Partition{{0, 1}, {2, 3}}));
  const std::vector<LayerCost> head = {{1, 0}, {1, 5}, {1, 0.5}, {1, 0}};
  EXPECT_EQ(balanced(2, head), (Partition{{0, 0}, {1, 3}}));
  // The last block ends with the model, which has no head.
  const std::vector<LayerCost> last = {{1, 0}, {1, 0}, {1, 0}, {1, 9}};
  EXPECT_EQ(balanced(2, last), (Partition{{0, 1}, {2, 3}}));
}

TEST(Partition, LayersWithoutCostStillFillBlocks) {
  EXPECT_EQ(partition(number(3), model_of({0, 0, 0})).size(), 3U);
}

TEST(Partition, RangesAreTakenAsWritten) {
  EXPECT_EQ(partition(ranges({"0-3", "4", "5-"}), eleven_layers()),
            (Partition{{0, 3}, {4, 4}, {5, 10}}));
}

TEST(Partition, ItsTextFormIsReadBack) {
  const Partition cut = partition(number(4), eleven_layers());
  EXPECT_EQ(partition(to_config(cut), eleven_layers()), cut);
}

TEST(Partition, TextFormIsExplicit) {
  EXPECT_EQ(to_config({{0, 3}, {4, 4}, {5, 10}}),
            ranges({"0-3", "4-4", "5-10"}));
}

TEST(Partition, AGapIsNamedWithItsPlace) {
  EXPECT_THAT(error_of(ranges({"0-3", "5-"})),
              testing::AllOf(testing::HasSubstr("run.toml:7"),
                             testing::HasSubstr("\"5-\" leaves a gap"),
                             testing::HasSubstr("layer 4")));
}

}  // namespace sluice::partition_test
