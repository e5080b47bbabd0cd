#include <ATen/ops/allclose.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/modules/build.h"
#include "tests/oracles/plain_vision.h"

namespace sluice::mlp_mixer_test {

const SampleSpec kImages = {{3, 12, 8}, 5};  // six patches of 4x4

ConfigNode sizes(std::int64_t patch, std::int64_t layers, std::int64_t width,
                 std::int64_t token_hidden, std::int64_t channel_hidden) {
  return table({{"patch", patch},
                {"layers", layers},
                {"width", width},
                {"token_hidden", token_hidden},
                {"channel_hidden", channel_hidden}});
}

Model mixer() {
  return build_model("mlp_mixer", sizes(4, 2, 16, 10, 24), kImages);
}

/// Mixer-B/16.
Model base() {
  return build_model("mlp_mixer", sizes(16, 12, 768, 384, 3072),
                     {{3, 224, 224}, 1000});
}

// The paper's table 1 says 59 million.
TEST(MlpMixer, BaseHasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(base()), 59'880'472);
}

TEST(MlpMixer, BaseCostsThePublished12Point6BillionMultiplyAdds) {
  double sum = 0;
  for (const LayerSpec& layer : base().layers) sum += layer.flops;
  EXPECT_NEAR(sum / 1e9, 12.6, 0.05);
}

TEST(MlpMixer, IsCutBetweenLayersOfTokens) {
  const std::vector<SampleShape> expected = {{6, 16}, {6, 16}, {6, 16}, {5}};
  EXPECT_EQ(shapes(mixer()), expected);
}

TEST(MlpMixer, APlainNetworkComputesTheSame) {
  const Model model = mixer();
  PlainMixer plain({4, 2, 16, 10, 24, 3, 6, 5});
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

TEST(MlpMixer, ItsTwoMlpsDropDifferentElements) {
  // Without weights each MLP adds its last bias, 1, kept or not: kept elements
  // are 2, so the sum is 2 where exactly one of the two was dropped.
  ConfigNode options = sizes(4, 1, 16, 10, 24);
  options.set("dropout", ConfigNode{.value = 0.5});
  const auto layer = make_layer(build_model("mlp_mixer", options, kImages), 1);
  for (const auto& item : layer->named_parameters())
    item.value().detach().fill_(item.key().ends_with("projection.bias") ? 1
                                                                        : 0);
  const at::Tensor sum =
      layer->forward({at::zeros({2, 6, 16})}, {}).at(0).detach();
  for (const double value : {0.0, 2.0, 4.0})
    EXPECT_TRUE((sum == value).any().item<bool>()) << value;
}

}  // namespace sluice::mlp_mixer_test
