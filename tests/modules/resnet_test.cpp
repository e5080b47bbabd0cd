#include <cmath>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/modules/build.h"
#include "tests/oracles/plain_models.h"

namespace sluice::resnet_test {

const SampleSpec kCifar = {{3, 32, 32}, 10};

Model resnet(std::int64_t depth, const SampleSpec& sample = kCifar,
             std::int64_t width = 16) {
  return build_model("resnet", table({{"depth", depth}, {"width", width}}),
                     sample);
}

TEST(ResNet, HasThePublishedNumberOfParameters) {
  // The paper's table 6, in millions: 0.27, 0.46, 0.66, 0.85, 1.7.
  for (const auto& [depth, count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{20, 269'722},
                                                          {32, 464'154},
                                                          {44, 658'586},
                                                          {56, 853'018},
                                                          {110, 1'727'962}})
    EXPECT_EQ(parameter_count(resnet(depth)), count) << depth;
}

TEST(ResNet, ShortNamesAreTheSameNetworks) {
  for (const auto& [name, depth] :
       std::vector<std::pair<std::string, std::int64_t>>{{"resnet20", 20},
                                                         {"resnet32", 32},
                                                         {"resnet56", 56},
                                                         {"resnet110", 110}})
    EXPECT_EQ(shapes(build_model(name, {}, kCifar)), shapes(resnet(depth)));
}

TEST(ResNet, IsCutAtResidualBlocksWhichHalveTwice) {
  const std::vector<SampleShape> expected = {
      {16, 32, 32}, {16, 32, 32}, {32, 16, 16}, {64, 8, 8}, {10}};
  EXPECT_EQ(shapes(resnet(8)), expected);
}

TEST(ResNet, OddMapsAreRoundedUp) {
  EXPECT_EQ(resnet(8, {{1, 28, 27}, 10}).layers[3].output,
            (SampleShape{64, 7, 7}));
}

TEST(ResNet, ResidualBlocksNameTheirParts) {
  const std::vector<std::string> names = parameter_names(resnet(20));
  EXPECT_EQ(names[0], "layers.0.conv.weight");
  EXPECT_EQ(names[3], "layers.1.conv1.weight");
  EXPECT_EQ(names[7], "layers.1.norm2.weight");
  EXPECT_EQ(names.back(), "layers.10.linear.bias");
}

TEST(ResNet, CostOfABlockIsThatOfItsPartsForEachOutput) {
  const Model model = resnet(8);
  EXPECT_EQ(model.layers[0].flops, 16384.0 * (27 + 3));
  EXPECT_EQ(model.layers[1].flops, 16384.0 * (144 + 144 + 7));
  EXPECT_EQ(model.layers[2].flops, 8192.0 * (144 + 288 + 7));
}

TEST(ResNet, CostOfResNet20IsThePublished41MillionMultiplyAdds) {
  double products = 0;
  for (const LayerSpec& layer : resnet(20).layers) products += layer.flops;
  EXPECT_NEAR(products / 1e6, 41, 1.5);
}

TEST(ResNet, WeightsHaveTheDeviationOfTheirFanOut) {
  const auto layer = make_layer(resnet(20), 9);  // 64 -> 64
  const at::Tensor weight = layer->named_parameters()["conv2.weight"];
  const double expected = std::sqrt(2.0 / (64 * 9));
  // 36,864 numbers: four standard errors are 1.5 %.
  EXPECT_NEAR(weight.std().item<double>(), expected, 0.015 * expected);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 4 * expected / 192);
}

TEST(ResNet, FanOutIsThatOfTheOutputsWhereChannelsDouble) {
  const auto layer = make_layer(resnet(20), 7);  // 32 -> 64
  const double found =
      layer->named_parameters()["conv1.weight"].std().item<double>();
  // 18,432 numbers: four standard errors are 2.1 %.
  const double expected = std::sqrt(2.0 / (64 * 9));
  EXPECT_NEAR(found, expected, 0.021 * expected);
}

TEST(ResNet, TwoConvolutionsOfABlockBeginDifferently) {
  const auto layer = make_layer(resnet(8), 1);
  EXPECT_FALSE(at::equal(layer->named_parameters()["conv1.weight"],
                         layer->named_parameters()["conv2.weight"]));
}

TEST(ResNet, ComputesWhatAPlainNetworkComputesBitForBit) {
  const Model model = resnet(14, {{3, 13, 10}, 10}, 4);
  PlainResNet plain(14, 4, 3, 10);
  plain.take_weights(initial_weights(model));
  const Outcome found = run_blocks(model, {0, 2, 4}, {});
  const at::Tensor input = samples(model).requires_grad_();
  const at::Tensor outputs = plain.forward(input);
  outputs.square().sum().backward();
  EXPECT_TRUE(at::equal(found.outputs, outputs));
  for (const auto& [name, gradient] : found.gradients) {
    const at::Tensor expected = name == "samples"
                                    ? input.grad()
                                    : plain.named_parameters()[name].grad();
    EXPECT_TRUE(at::equal(gradient, expected)) << name;
  }
}

TEST(ResNet, AnotherDepthComputesSomethingElse) {
  const SampleSpec sample = {{3, 13, 10}, 10};
  EXPECT_FALSE(at::equal(run_blocks(resnet(14, sample, 4), {0}, {}).outputs,
                         run_blocks(resnet(8, sample, 4), {0}, {}).outputs));
}

TEST(ResNet, KeepsChannelsLast) {
  const Model model = resnet(8);
  Tensors values = {samples(model).contiguous(at::MemoryFormat::ChannelsLast)};
  for (std::int64_t i = 0; i < 4; ++i) {
    Block block = make_block(model, 1, i, i, 1, MemoryFormat::channels_last);
    values = block.forward(values, {});
    EXPECT_TRUE(values[0].is_contiguous(at::MemoryFormat::ChannelsLast)) << i;
  }
}

TEST(ResNet, TextsAreRefused) {
  EXPECT_THROW(resnet(20, {{64}, 65, /*is_text=*/true}), UserError);
}

}  // namespace sluice::resnet_test
