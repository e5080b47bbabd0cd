#include <cmath>

#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "modules/transformer.h"
#include "tests/modules/build.h"
#include "tests/oracles/plain_models.h"

namespace sluice::gpt_test {

constexpr std::int64_t kContext = 12;
constexpr std::int64_t kVocabulary = 11;
const SampleSpec kText = {{kContext}, kVocabulary, /*is_text=*/true};

Model gpt(std::vector<std::pair<std::string, ConfigNode::Value>> more = {},
          const SampleSpec& sample = kText) {
  ConfigNode options = table({{"layers", std::int64_t{3}},
                              {"width", std::int64_t{16}},
                              {"heads", std::int64_t{2}}});
  for (auto& [key, value] : more)
    options.set(key, ConfigNode{.value = std::move(value)});
  return build_model("gpt", options, sample);
}

class GptOracle : public testing::TestWithParam<bool> {};

TEST_P(GptOracle, APlainNetworkHasTheSameBits) {
  const bool tied = GetParam();
  const Model model = gpt({{"tied", tied}});
  PlainGpt plain({3, 16, 2, kContext, kVocabulary, tied});
  plain.take_weights(initial_weights(model));
  const at::Tensor outputs = plain.forward(samples(model));
  outputs.square().sum().backward();
  for (const std::vector<std::int64_t>& starts :
       {std::vector<std::int64_t>{0}, {0, 1, 2, 3, 4}, {0, 2}}) {
    const Outcome found = run_blocks(model, starts, {});
    EXPECT_TRUE(at::equal(found.outputs, outputs));
    EXPECT_EQ(found.gradients.size(), plain.parameters().size());
    for (const auto& [name, gradient] : found.gradients)
      EXPECT_TRUE(at::equal(gradient, plain.named_parameters()[name].grad()))
          << name << " in " << starts.size() << " blocks";
  }
}

INSTANTIATE_TEST_SUITE_P(TiedAndNot, GptOracle, testing::Bool());

TEST(Gpt, TiedItHasNoSecondWeightForTheVocabulary) {
  const std::vector<std::string> untied = parameter_names(gpt());
  const std::vector<std::string> tied = parameter_names(gpt({{"tied", true}}));
  EXPECT_THAT(untied, testing::Contains("layers.4.vocabulary.weight"));
  EXPECT_EQ(tied.size(), untied.size() - 1);
  EXPECT_THAT(
      tied, testing::Not(testing::Contains(testing::HasSubstr("vocabulary"))));
}

TEST(Gpt, TyingChangesTheGradientOfTheEmbedding) {
  // Two networks that differ in the tie: here the last layer's weight is a
  // copy.
  PlainGpt tied({3, 16, 2, kContext, kVocabulary, true});
  PlainGpt untied({3, 16, 2, kContext, kVocabulary, false});
  NamedTensors weights = initial_weights(gpt({{"tied", true}}));
  tied.take_weights(weights);
  weights.emplace_back("layers.4.vocabulary.weight", weights[0].second);
  untied.take_weights(weights);
  tied.forward(samples(gpt())).square().sum().backward();
  untied.forward(samples(gpt())).square().sum().backward();
  EXPECT_FALSE(
      at::equal(tied.parameters()[0].grad(), untied.parameters()[0].grad()));
}

TEST(Gpt, OnlyATiedOneNeedsBackprop) {
  EXPECT_EQ(gpt().needs_backprop, "");
  EXPECT_THAT(gpt({{"tied", true}}).needs_backprop,
              testing::HasSubstr("tied = true"));
}

TEST(Gpt, TheTiedWeightThatTravelsIsACopy) {
  const Model model = gpt({{"tied", true}});
  const auto layer = make_layer(model, 0);
  const Tensors outputs = layer->forward({samples(model)}, {});
  ASSERT_EQ(outputs.size(), 2U);
  const at::Tensor weight = layer->named_parameters()["token.weight"];
  EXPECT_TRUE(at::equal(outputs[1], weight));
  EXPECT_NE(outputs[1].data_ptr(), weight.data_ptr());
}

/// GPT-2's sum, with context T and vocabulary V.
std::int64_t parameters_of(std::int64_t layers, std::int64_t width,
                           std::int64_t context, std::int64_t vocabulary,
                           bool bias, bool tied) {
  const std::int64_t norm = bias ? 2 * width : width;
  const std::int64_t biases = bias ? (3 + 1 + 4 + 1) * width : 0;
  const std::int64_t layer = 12 * width * width + biases + 2 * norm;
  return (vocabulary + context) * width + layers * layer + norm +
         (tied ? 0 : vocabulary * width);
}

TEST(Gpt, HasTheParametersOfItsSizes) {
  for (const bool bias : {true, false}) {
    for (const bool tied : {true, false})
      EXPECT_EQ(parameter_count(gpt({{"bias", bias}, {"tied", tied}})),
                parameters_of(3, 16, kContext, kVocabulary, bias, tied));
  }
}

TEST(Gpt, TheSmallestGpt2Has124MillionParameters) {
  EXPECT_EQ(parameters_of(12, 768, 1024, 50257, true, true), 124'439'808);
}

TEST(Gpt, CostCountsProductsAttentionAndTheRest) {
  const Model model = gpt();
  const double products = 12 * 16 * 16 + 2 * kContext * 16;
  EXPECT_EQ(model.layers[0].flops, 2 * kContext * 16);
  EXPECT_EQ(model.layers[1].flops, kContext * (products + 10 * 16));
  EXPECT_EQ(model.layers[4].flops, kContext * (16 * kVocabulary + 2 * 16));
}

TEST(Gpt, CutsBetweenLayers) {
  const std::vector<SampleShape> expected = {{kContext, 16},
                                             {kContext, 16},
                                             {kContext, 16},
                                             {kContext, 16},
                                             {kContext, kVocabulary}};
  EXPECT_EQ(shapes(gpt()), expected);
}

at::Tensor logits(const Model& model, const at::Tensor& tokens,
                  const Pass& pass = {}) {
  return make_block(model, 1).forward({tokens}, pass).at(0).detach();
}

class GptCausality : public testing::TestWithParam<double> {};

TEST_P(GptCausality, APlaceSeesNoLaterToken) {
  const Model model = gpt({{"dropout", GetParam()}});
  const at::Tensor tokens = samples(model);
  at::Tensor changed = tokens.clone();
  changed.select(1, 7).add_(1).remainder_(kVocabulary);
  const at::Tensor before = logits(model, tokens);
  const at::Tensor after = logits(model, changed);
  EXPECT_TRUE(at::equal(before.slice(1, 0, 7), after.slice(1, 0, 7)));
  for (std::int64_t place = 7; place < kContext; ++place)
    EXPECT_FALSE(at::equal(before.select(1, place), after.select(1, place)));
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutDropout, GptCausality,
                         testing::Values(0.0, 0.1));

TEST(Gpt, PositionsMatter) {
  const at::Tensor tokens = at::ones({1, kContext}, at::kLong);
  const at::Tensor found = logits(gpt(), tokens);
  EXPECT_FALSE(at::allclose(found.select(1, 0), found.select(1, 1)));
}

TEST(Gpt, ShorterTextsAreTaken) {
  const Model model = gpt();
  const at::Tensor tokens = samples(model);
  EXPECT_TRUE(at::allclose(logits(model, tokens.slice(1, 0, 5)),
                           logits(model, tokens).slice(1, 0, 5), 1e-4, 1e-6));
}

TEST(Gpt, LongerTextsAreRefused) {
  EXPECT_THROW(logits(gpt(), at::ones({1, kContext + 1}, at::kLong)),
               UserError);
}

TEST(Gpt, AnotherBatchHasOtherMasks) {
  const Model model = gpt({{"dropout", 0.2}});
  const at::Tensor tokens = samples(model);
  EXPECT_TRUE(at::equal(logits(model, tokens, {.seed = 1, .batch = 2}),
                        logits(model, tokens, {.seed = 1, .batch = 2})));
  EXPECT_FALSE(at::equal(logits(model, tokens, {.seed = 1, .batch = 2}),
                         logits(model, tokens, {.seed = 1, .batch = 3})));
}

TEST(Gpt, EvaluationDropsNothing) {
  const Pass evaluation = {.training = false};
  const at::Tensor tokens = samples(gpt());
  EXPECT_TRUE(at::equal(logits(gpt({{"dropout", 0.2}}), tokens, evaluation),
                        logits(gpt(), tokens, evaluation)));
}

TEST(Attention, WrittenOutComputesWhatLibTorchsComputes) {
  // A probability so small that nothing is dropped takes the other way.
  SelfAttention fused({.width = 16, .heads = 2, .dropout = 0});
  SelfAttention written({.width = 16, .heads = 2, .dropout = 1e-12});
  fused.initialise(3);
  written.initialise(3);
  const auto run = [](SelfAttention& attention) {
    const at::Tensor x =
        at::randn({2, 9, 16}, Pass{}.generator("x")).requires_grad_();
    const at::Tensor y = attention.forward({x}, {}).at(0);
    y.square().sum().backward();
    return std::pair(y.detach(), x.grad());
  };
  const auto [y1, gradient1] = run(fused);
  const auto [y2, gradient2] = run(written);
  EXPECT_TRUE(at::allclose(y1, y2, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(gradient1, gradient2, 1e-4, 1e-5));
}

TEST(Attention, ItsWeightsAreDroppedToo) {
  // A single place attends to itself with weight 1: what is not the output's
  // dropout shows as a whole head that is missing before the projection.
  SelfAttention attention({.width = 16, .heads = 2, .dropout = 0.5});
  attention.initialise(3);
  const auto parameters = attention.named_parameters();
  parameters["projection.weight"].detach().fill_(1);
  const at::Tensor x = at::randn({200, 1, 16}, Pass{}.generator("x"));
  const at::Tensor y = attention.forward({x}, {}).at(0).detach();
  // Both heads dropped: nothing but the bias, twice or zero. Probability 1/4.
  const at::Tensor bias = parameters["projection.bias"].detach();
  const auto empty = ((y == 0) | (y - 2 * bias).abs().lt(1e-6))
                         .flatten(1)
                         .all(1)
                         .sum()
                         .item<std::int64_t>();
  EXPECT_GT(empty, 20);  // 50 are expected, 6 is a standard deviation
  EXPECT_LT(empty, 80);
}

TEST(Transformer, ItsTwoPartsDropDifferentElements) {
  // Without weights each part adds its last bias, which is 1: kept elements are
  // 2, so the sum is 2 where exactly one of the two was dropped.
  TransformerLayer layer({.width = 16, .heads = 2, .dropout = 0.5}, 1);
  for (const auto& item : layer.named_parameters())
    item.value().detach().fill_(item.key().ends_with("projection.bias") ? 1
                                                                        : 0);
  const at::Tensor sum =
      layer.forward({at::zeros({2, 9, 16})}, {}).at(0).detach();
  for (const double value : {0.0, 2.0, 4.0})
    EXPECT_TRUE((sum == value).any().item<bool>()) << value;
}

TEST(Gpt, BeginsAsGpt2Does) {
  const auto layer = make_layer(gpt({{"width", std::int64_t{64}}}), 1);
  const auto parameters = layer->named_parameters();
  const auto deviation = [&](const char* name) {
    return parameters[name].std().item<double>();
  };
  // 4,096 numbers or more: four standard errors are 4.4 %.
  EXPECT_NEAR(deviation("attention.qkv.weight"), 0.02, 0.0009);
  EXPECT_NEAR(deviation("mlp.hidden.weight"), 0.02, 0.0009);
  const double residual = 0.02 / std::sqrt(2.0 * 3);
  EXPECT_NEAR(deviation("attention.projection.weight"), residual, 0.0004);
  EXPECT_NEAR(deviation("mlp.projection.weight"), residual, 0.0004);
  EXPECT_TRUE((parameters["mlp.hidden.bias"] == 0).all().item<bool>());
  EXPECT_TRUE((parameters["norm1.weight"] == 1).all().item<bool>());
}

}  // namespace sluice::gpt_test
