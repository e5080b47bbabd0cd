#include <cmath>

#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include "tests/modules/build.h"
#include "tests/oracles/plain_vision.h"

namespace sluice::vit_test {

const SampleSpec kImages = {{3, 12, 8}, 5};  // six patches of 4x4

Model vit(std::vector<std::pair<std::string, ConfigNode::Value>> more = {},
          const SampleSpec& sample = kImages) {
  ConfigNode options = table({{"layers", std::int64_t{2}},
                              {"width", std::int64_t{16}},
                              {"heads", std::int64_t{2}}});
  for (auto& [key, value] : more)
    options.set(key, ConfigNode{.value = std::move(value)});
  return build_model("vit", options, sample);
}

/// ViT-B/16.
Model base() {
  return vit({{"patch", std::int64_t{16}},
              {"layers", std::int64_t{12}},
              {"width", std::int64_t{768}},
              {"heads", std::int64_t{12}}},
             {{3, 224, 224}, 1000});
}

TEST(Vit, BaseHasTorchvisionsNumberOfParameters) {
  EXPECT_EQ(parameter_count(base()), 86'567'656);
}

TEST(Vit, BaseCostsThePublished17AndAHalfBillionMultiplyAdds) {
  double sum = 0;
  for (const LayerSpec& layer : base().layers) sum += layer.flops;
  EXPECT_NEAR(sum / 1e9, 17.56, 0.05);
}

TEST(Vit, IsCutBetweenLayersOfTokens) {
  const std::vector<SampleShape> with_class = {{7, 16}, {7, 16}, {7, 16}, {5}};
  const std::vector<SampleShape> without = {{6, 16}, {6, 16}, {6, 16}, {5}};
  EXPECT_EQ(shapes(vit()), with_class);
  EXPECT_EQ(shapes(vit({{"pool", "mean"}})), without);
}

class VitOracle : public testing::TestWithParam<bool> {};

TEST_P(VitOracle, APlainNetworkComputesTheSame) {
  const bool has_class_token = GetParam();
  const Model model = vit({{"pool", has_class_token ? "class_token" : "mean"}});
  PlainVit plain({4, 2, 16, 2, 3, has_class_token ? 7 : 6, 5, has_class_token});
  plain.take_weights(initial_weights(model));
  const Outcome found = run_blocks(model, {0, 1, 3}, {});
  const at::Tensor outputs = plain.forward(samples(model));
  outputs.square().sum().backward();
  EXPECT_TRUE(at::allclose(found.outputs, outputs, 1e-5, 1e-6));
  for (const auto& [name, gradient] : found.gradients) {
    if (name == "samples") continue;
    EXPECT_TRUE(at::allclose(gradient, plain.named_parameters()[name].grad(),
                             1e-4, 1e-5))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(WithAClassTokenAndWithout, VitOracle, testing::Bool());

at::Tensor logits(const Model& model, const at::Tensor& images,
                  const Pass& pass = {}) {
  return make_block(model, 1).forward({images}, pass).at(0).detach();
}

TEST(Vit, EveryPatchSeesEveryOther) {
  const Model model = vit({{"pool", "mean"}, {"layers", std::int64_t{1}}});
  Block below = make_block(model, 1, 0, 1, 1, MemoryFormat::contiguous);
  const at::Tensor images = samples(model, 1);
  at::Tensor changed = images.clone();
  changed.select(2, 11).select(2, 7).add_(1);  // a pixel of the last patch
  const at::Tensor before = below.forward({images}, {}).at(0);
  const at::Tensor after = below.forward({changed}, {}).at(0);
  for (std::int64_t place = 0; place < 6; ++place)
    EXPECT_FALSE(at::equal(before.select(1, place), after.select(1, place)))
        << place;
}

TEST(Vit, PatchesGoRowByRow) {
  const Model model = vit({{"pool", "mean"}});
  const auto embedding = make_layer(model, 0);
  const at::Tensor images = samples(model, 1);
  at::Tensor changed = images.clone();
  changed.select(2, 0).select(2, 4).add_(1);  // of the second in the first row
  const at::Tensor same = (embedding->forward({images}, {}).at(0) ==
                           embedding->forward({changed}, {}).at(0))
                              .all(2);
  for (std::int64_t place = 0; place < 6; ++place)
    EXPECT_EQ(same[0][place].item<bool>(), place != 1) << place;
}

TEST(Vit, TokensAreContiguousInBothMemoryFormats) {
  const Model model = vit({{"pool", "mean"}});
  for (const MemoryFormat format :
       {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    Block block = make_block(model, 1, 0, 0, 1, format);
    const Tensors tokens =
        block.forward({laid_out(samples(model), format)}, {});
    EXPECT_TRUE(tokens[0].is_contiguous());
  }
}

TEST(Vit, AnotherBatchHasOtherMasksAndEvaluationNone) {
  const Model dropping = vit({{"dropout", 0.2}});
  const at::Tensor images = samples(dropping);
  EXPECT_FALSE(at::equal(logits(dropping, images, {.seed = 1, .batch = 2}),
                         logits(dropping, images, {.seed = 1, .batch = 3})));
  EXPECT_TRUE(at::equal(logits(dropping, images, {.training = false}),
                        logits(vit(), images, {.training = false})));
}

TEST(Vit, BeginsAsDeit) {
  const Model model = vit({{"width", std::int64_t{64}}});
  const auto deviation = [&](std::size_t layer, const char* name) {
    return make_layer(model, layer)
        ->named_parameters()[name]
        .std()
        .item<double>();
  };
  // 4,096 numbers or more: four standard errors are 4.4 %; of the patches
  // 3,072.
  EXPECT_NEAR(deviation(1, "mlp.projection.weight"), 0.02, 0.0009);
  EXPECT_NEAR(deviation(1, "attention.projection.weight"), 0.02, 0.0009);
  EXPECT_NEAR(deviation(0, "patches.weight"), 1 / std::sqrt(48.0), 0.0075);
}

}  // namespace sluice::vit_test
