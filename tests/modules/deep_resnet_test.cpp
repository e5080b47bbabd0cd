#include <array>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/modules/build.h"
#include "tests/oracles/plain_vision.h"

namespace sluice::deep_resnet_test {

const SampleSpec kImageNet = {{3, 224, 224}, 1000};
const SampleSpec kTinyImageNet = {{3, 64, 64}, 200};
const SampleSpec kCifar = {{3, 32, 32}, 10};

TEST(DeepResNet, HasTorchvisionsNumberOfParameters) {
  EXPECT_EQ(parameter_count(build_model("resnet18", {}, kImageNet)),
            11'689'512);
  EXPECT_EQ(parameter_count(build_model("resnet34", {}, kImageNet)),
            21'797'672);
  EXPECT_EQ(parameter_count(build_model("resnet50", {}, kImageNet)),
            25'557'032);
}

TEST(DeepResNet, OnCifarHasTheNumberOfParametersOfTheUsualCode) {
  EXPECT_EQ(parameter_count(build_model("resnet18", {}, kCifar)), 11'173'962);
  EXPECT_EQ(parameter_count(build_model("resnet50", {}, kCifar)), 23'520'842);
}

double giga_multiply_adds(std::string_view name) {
  double sum = 0;
  for (const LayerSpec& layer : build_model(name, {}, kImageNet).layers)
    sum += layer.flops;
  return sum / 1e9;
}

// torchvision's figures are of products alone.
TEST(DeepResNet, CostIsThePublishedAndAPercentForNormsAndSums) {
  EXPECT_NEAR(giga_multiply_adds("resnet18"), 1.814, 0.01 * 1.814);
  EXPECT_NEAR(giga_multiply_adds("resnet34"), 3.664, 0.01 * 3.664);
  EXPECT_NEAR(giga_multiply_adds("resnet50"), 4.089, 0.01 * 4.089);
}

TEST(DeepResNet, IsCutAtResidualBlocks) {
  const std::vector<SampleShape> expected = {
      {64, 56, 56},  {64, 56, 56},  {64, 56, 56}, {128, 28, 28}, {128, 28, 28},
      {256, 14, 14}, {256, 14, 14}, {512, 7, 7},  {512, 7, 7},   {1000}};
  EXPECT_EQ(shapes(build_model("resnet18", {}, kImageNet)), expected);
}

TEST(DeepResNet, BottlenecksGiveFourTimesTheirWidth) {
  const std::vector<SampleShape> found =
      shapes(build_model("resnet50", {}, kImageNet));
  ASSERT_EQ(found.size(), 1 + 3 + 4 + 6 + 3 + 1U);
  EXPECT_EQ(found[0], (SampleShape{64, 56, 56}));
  EXPECT_EQ(found[1], (SampleShape{256, 56, 56}));
  EXPECT_EQ(found[4], (SampleShape{512, 28, 28}));
  EXPECT_EQ(found[16], (SampleShape{2048, 7, 7}));
}

/// Height of the map that the first stage sees.
std::int64_t first_stage(const SampleSpec& sample, std::int64_t stem = 0) {
  return build_model("resnet18", table({{"stem", stem}}), sample)
      .layers[0]
      .output[1];
}

TEST(DeepResNet, TheStemIsThatForTheSizeOfTheData) {
  EXPECT_EQ(first_stage(kImageNet), 56);
  EXPECT_EQ(first_stage(kTinyImageNet), 32);
  EXPECT_EQ(first_stage(kCifar), 32);
  EXPECT_EQ(first_stage({{1, 28, 28}, 10}), 28);
}

TEST(DeepResNet, TheStemCanBeChosen) {
  EXPECT_EQ(first_stage(kCifar, 64), 16);
  EXPECT_EQ(first_stage(kCifar, 224), 8);
}

TEST(DeepResNet, ParametersAreInTheOrderOfTorchvisions) {
  const std::vector<std::string> names = parameter_names(
      build_model("resnet50", table({{"width", std::int64_t{4}}}), kCifar));
  const std::vector<std::string> expected = {
      "layers.0.conv.weight",        "layers.0.norm.weight",
      "layers.0.norm.bias",          "layers.1.conv1.weight",
      "layers.1.norm1.weight",       "layers.1.norm1.bias",
      "layers.1.conv2.weight",       "layers.1.norm2.weight",
      "layers.1.norm2.bias",         "layers.1.conv3.weight",
      "layers.1.norm3.weight",       "layers.1.norm3.bias",
      "layers.1.shortcut.weight",    "layers.1.shortcut_norm.weight",
      "layers.1.shortcut_norm.bias", "layers.2.conv1.weight"};
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 16),
              testing::ElementsAreArray(expected));
  EXPECT_EQ(names.back(), "layers.17.linear.bias");
}

at::Tensor last_gamma(const Model& model, const char* name) {
  return make_layer(model, 1)->named_parameters()[name];
}

TEST(DeepResNet, ResidualBlocksBeginAsShortcutsOnlyWhereAsked) {
  const ConfigNode small = table({{"width", std::int64_t{4}}});
  ConfigNode zero = small;
  zero.set("zero_init", ConfigNode{.value = true});
  const auto is = [](double value, const at::Tensor& gamma) {
    return (gamma == value).all().item<bool>();
  };
  const Model basic = build_model("resnet18", zero, kCifar);
  EXPECT_TRUE(is(0, last_gamma(basic, "norm2.weight")));
  EXPECT_TRUE(is(1, last_gamma(basic, "norm1.weight")));
  EXPECT_TRUE(
      is(0, last_gamma(build_model("resnet50", zero, kCifar), "norm3.weight")));
  EXPECT_TRUE(is(
      1, last_gamma(build_model("resnet18", small, kCifar), "norm2.weight")));
}

struct Case {
  std::string_view name;
  std::array<std::int64_t, 4> blocks;
  bool is_bottleneck = false;
  std::int64_t stem = 32;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.name << " for " << value.stem << " pixels";
}

class DeepResNetOracle : public testing::TestWithParam<Case> {};

TEST_P(DeepResNetOracle, APlainNetworkHasTheSameBits) {
  const Case& of = GetParam();
  const Model model = build_model(
      of.name, table({{"stem", of.stem}, {"width", std::int64_t{4}}}),
      {{3, 37, 34}, 10});
  PlainDeepResNet plain({of.blocks, of.is_bottleneck, of.stem, 4, 3, 10});
  plain.take_weights(initial_weights(model));
  const Outcome found = run_blocks(model, {0, 3, 6}, {});
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

INSTANTIATE_TEST_SUITE_P(
    Stems, DeepResNetOracle,
    testing::Values(Case{"resnet18", {2, 2, 2, 2}, false, 32},
                    Case{"resnet34", {3, 4, 6, 3}, false, 64},
                    Case{"resnet50", {3, 4, 6, 3}, true, 224}));

TEST(DeepResNet, KeepsChannelsLast) {
  const Model model = build_model(
      "resnet50",
      table({{"width", std::int64_t{4}}, {"stem", std::int64_t{64}}}), kCifar);
  Tensors values = {samples(model).contiguous(at::MemoryFormat::ChannelsLast)};
  for (std::int64_t i = 0; i < 9; ++i) {
    Block block = make_block(model, 1, i, i, 1, MemoryFormat::channels_last);
    values = block.forward(values, {});
    EXPECT_TRUE(values[0].is_contiguous(at::MemoryFormat::ChannelsLast)) << i;
  }
}

TEST(DeepResNet, BlocksAreMadeForOtherInputsWithTheirOwnChannels) {
  const LayerSpec layer = build_model("resnet18", {}, kCifar).layers[5];
  const LayerSpec copy = layer.for_input({64, 32, 32}, 2);
  EXPECT_EQ(copy.output, (SampleShape{256, 16, 16}));
  const auto made = copy.make();
  EXPECT_EQ(made->named_parameters()["shortcut.weight"].size(1), 64);
}

}  // namespace sluice::deep_resnet_test
