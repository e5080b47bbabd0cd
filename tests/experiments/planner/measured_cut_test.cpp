// `sluice plan --cut`: where to cut a model, by what its layers take here.
#include "experiments/planner/measured_cut.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::planner::measured_cut_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// An MLP of four layers.
ConfigNode config_with(const std::string& lines) {
  return parse_toml(
      "batch_size = 32\nturns = 2\n"
      "data = {name = 'drawn_digits', train = 64, test = 8}\n"
      "model = {name = 'mlp', hidden = [64, 64, 64]}\n" +
          lines,
      "cut.toml");
}

MeasuredCut cut_of(const std::string& lines) {
  return measure_cut(config_with(lines), "", [](const std::string&) {});
}

std::int64_t layers_in(const Partition& ranges) {
  std::int64_t layers = 0;
  for (const LayerRange& range : ranges) {
    EXPECT_EQ(range.first, layers);
    layers = range.last + 1;
  }
  return layers;
}

TEST(MeasuredCut, MeasuresEachLayerAndTheBlocksOfBothCuts) {
  const MeasuredCut cut =
      cut_of("blocks = 2\nboundary = {policy = 'delayed_gradient'}\n");
  ASSERT_EQ(cut.layers.size(), 4U);
  for (const LayerSeconds& layer : cut.layers) {
    EXPECT_GT(layer.work, 0) << layer.name;
    EXPECT_EQ(layer.as_last, 0) << layer.name;
  }
  for (const CutSeconds* each : {&cut.by_operations, &cut.by_times}) {
    EXPECT_EQ(layers_in(each->ranges), 4);
    ASSERT_EQ(each->blocks.size(), 2U);
    EXPECT_GT(each->blocks[0], 0);
    EXPECT_LE(each->balance(), 1 + 1e-9);
  }
  // Most operations are in the first layer, of 784 inputs.
  EXPECT_EQ(cut.by_operations.ranges, (Partition{{0, 0}, {1, 3}}));
}

TEST(MeasuredCut, CountsAHeadWhereItsBlockEnds) {
  const MeasuredCut cut = cut_of(
      "blocks = 2\nboundary = {policy = 'local_loss', head = {name = "
      "'predsim'}}\n");
  EXPECT_GT(cut.layers.at(1).as_last, 0);
  EXPECT_EQ(cut.layers.at(3).as_last, 0) << "the last block has none";
}

TEST(MeasuredCut, WantsBoundariesThatCouldBeAnywhere) {
  EXPECT_THAT(
      [] {
        cut_of(
            "blocks = 3\nboundary = {1 = {policy = 'backprop'}, 2 = {policy "
            "= "
            "'delayed_gradient'}}\n");
      },
      ThrowsMessage<UserError>(HasSubstr("differs from boundary.1")));
}

TEST(MeasuredCut, IsPrintedWithTheLineOfTheConfig) {
  MeasuredCut cut{
      .layers = {{"conv", 2e-3, 1e-3}, {"pool", 3e-3, 0}, {"linear", 1e-3, 0}},
      .by_operations = {.ranges = {{0, 1}, {2, 2}}, .blocks = {5e-3, 1e-3}},
      .by_times = {.ranges = {{0, 0}, {1, 2}}, .blocks = {3e-3, 4e-3}}};
  EXPECT_THAT(text_of(cut),
              AllOf(HasSubstr("1      3.000      0.000  pool"),
                    HasSubstr("5.00, 1.00 ms a turn; balance 0.60"),
                    HasSubstr("by times: blocks = [\"0-0\", \"1-2\"]"),
                    HasSubstr("3.00, 4.00 ms a turn; balance 0.88"),
                    HasSubstr("1.25 times as fast")));
  cut.by_times = cut.by_operations;
  EXPECT_THAT(text_of(cut),
              AllOf(HasSubstr("the same cut"), Not(HasSubstr("times as"))));
}

}  // namespace sluice::planner::measured_cut_test
