#include <cmath>

#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/blocks/block.h"
#include "modules/models.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::aug_local_test {

using testing::ElementsAre;
using testing::HasSubstr;

ConfigNode options_of(std::int64_t depth, double pyramid = 0) {
  ConfigNode options;
  options.set("depth", ConfigNode{.value = depth});
  options.set("pyramid", ConfigNode{.value = pyramid});
  return options;
}

Model mlp_of_three() {
  ConfigNode options;
  ConfigNode::Array widths;
  for (const std::int64_t width : {48, 40, 32})
    widths.emplace_back().value = width;
  options.set("hidden", ConfigNode{.value = widths});
  return make_model("mlp", {.shape = {20}, .classes = 3}, options);
}

/// Above a layer of the model, as block k of K.
BoundarySite above(const Model& model, std::int64_t layer,
                   std::int64_t block = 1, std::int64_t blocks = 2) {
  BoundarySite site =
      site_of(model.layers[static_cast<std::size_t>(layer)].output);
  site.layer = layer;
  site.block = block;
  site.blocks = blocks;
  site.model = &model;
  return site;
}

/// Outputs of the head's copies, by the weight of that name in each.
std::vector<std::int64_t> widths_of(const Head& head, std::string_view weight) {
  std::vector<std::int64_t> widths;
  for (const auto& item : head.named_parameters())
    if (item.key().starts_with("layer") && item.key().ends_with(weight))
      widths.push_back(item.value().size(0));
  return widths;
}

TEST(AugLocal, CopiesLayersAtEqualDistancesUpToTheLastHiddenOne) {
  const Model resnet = make_model("resnet32", {{3, 32, 32}, 3});
  const auto copied = [&](std::int64_t layer, std::int64_t depth) {
    return widths_of(
        *make_head("aug_local", above(resnet, layer), options_of(depth)),
        "conv1.weight");
  };
  // Hidden layers 0 to 15; 6 to 10 have 32 channels, 11 to 15 have 64.
  EXPECT_THAT(copied(0, 3), ElementsAre(16, 32, 64));      // 5, 10, 15
  EXPECT_THAT(copied(0, 4), ElementsAre(16, 32, 64, 64));  // 4, 8, 11, 15
  EXPECT_THAT(copied(0, 1), ElementsAre(64));              // 15
  EXPECT_THAT(copied(12, 5), ElementsAre(64, 64, 64)) << "what is left";
}

TEST(AugLocal, HalvesTheMapWhereLayersThatHalvedItWereLeftOut) {
  const Model resnet = make_model("resnet32", {{3, 32, 32}, 3});
  for (const std::int64_t depth : {1, 2, 3, 4, 5}) {
    const auto head =
        make_head("aug_local", above(resnet, 0), options_of(depth));
    const at::Tensor features = features_of({16, 32, 32});
    const at::Tensor logits =
        head->forward({features}, {.labels = six_labels()}).logits;
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{6, 3})) << depth;
  }
}

TEST(AugLocal, APyramidLosesDepthFromBlockToBlock) {
  const Model resnet = make_model("resnet32", {{3, 32, 32}, 3});
  for (std::int64_t block = 1; block < 12; ++block) {
    const auto head = make_head(
        "aug_local", above(resnet, block - 1, block, 16), options_of(5, 0.5));
    // 5 (1 - r) + r with r = (k - 1) / 28
    const auto expected = static_cast<std::size_t>(
        std::lround(5 - static_cast<double>(block - 1) / 7));
    EXPECT_EQ(widths_of(*head, "conv1.weight").size(), expected) << block;
  }
}

TEST(AugLocal, AugLocalOfAnMlpIsItsLayersWithWeightsOfTheirOwn) {
  const Model mlp = mlp_of_three();
  const auto head = make_head("aug_local", above(mlp, 0), options_of(1));
  const auto weights = head->named_parameters();
  const at::Tensor features = features_of({48});
  const at::Tensor hidden =
      at::relu(at::linear(features, weights["layer1.linear.weight"],
                          weights["layer1.linear.bias"]));
  const at::Tensor logits = at::linear(hidden, weights["classifier.weight"],
                                       weights["classifier.bias"]);
  const HeadResult result = head->forward({features}, {.labels = six_labels()});
  EXPECT_EQ(hidden.size(1), 32);
  EXPECT_TRUE(at::equal(result.logits, logits));
  EXPECT_TRUE(
      at::equal(result.loss, cross_entropy_loss()(logits, six_labels())));
}

TEST(AugLocal, GradientReachesTheFeaturesAndEveryCopy) {
  const Model vgg = make_model("vgg8b", {{1, 28, 28}, 3});
  const auto head = make_head("aug_local", above(vgg, 0), options_of(2));
  const at::Tensor features = features_of({128, 28, 28});
  head->forward({features}, {.labels = six_labels()}).loss.backward();
  EXPECT_GT(features.grad().abs().max().item<double>(), 0);
  for (const auto& item : head->named_parameters())
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

TEST(AugLocal, AugLocalOfTheSameLayerTwiceHasOtherWeightsThanTheModel) {
  const Model mlp = mlp_of_three();
  const auto head = make_head("aug_local", above(mlp, 1), options_of(1));
  const at::Tensor copied = head->named_parameters()["layer1.linear.weight"];
  const auto layer = make_layers(mlp, 2, 2, site_of({1}).seed).front();
  const at::Tensor original = layer->named_parameters()["linear.weight"];
  ASSERT_EQ(copied.sizes(), original.sizes());
  EXPECT_FALSE(at::equal(copied, original));
}

TEST(AugLocal, AboveTheLastHiddenLayerIsRefused) {
  const Model mlp = mlp_of_three();
  try {
    make_head("aug_local", above(mlp, 2));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is none above to copy"));
  }
}

}  // namespace sluice::aug_local_test
