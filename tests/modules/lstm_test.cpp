#include <cmath>

#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include "tests/modules/build.h"
#include "tests/oracles/plain_lstm.h"

namespace sluice::lstm_test {

constexpr std::int64_t kContext = 12;
constexpr std::int64_t kVocabulary = 11;
const SampleSpec kText = {{kContext}, kVocabulary, /*is_text=*/true};

Model lstm(double dropout = 0, const SampleSpec& sample = kText) {
  return build_model("lstm",
                     table({{"layers", std::int64_t{2}},
                            {"width", std::int64_t{16}},
                            {"dropout", dropout}}),
                     sample);
}

at::Tensor logits(const Model& model, const at::Tensor& tokens,
                  const Pass& pass = {}) {
  return make_block(model, 1).forward({tokens}, pass).at(0).detach();
}

TEST(Lstm, HasTheParametersOfItsSizes) {
  const std::int64_t layer = 4 * 16 * (16 + 16) + 2 * 4 * 16;
  EXPECT_EQ(parameter_count(lstm()),
            kVocabulary * 16 + 2 * layer + 16 * kVocabulary + kVocabulary);
}

TEST(Lstm, LayersHaveLibTorchsNames) {
  EXPECT_EQ(make_layer(lstm(), 1)->named_parameters().keys(),
            (std::vector<std::string>{"lstm.weight_ih_l0", "lstm.weight_hh_l0",
                                      "lstm.bias_ih_l0", "lstm.bias_hh_l0"}));
}

TEST(Lstm, IsCutBetweenLayers) {
  const std::vector<SampleShape> expected = {
      {kContext, 16}, {kContext, 16}, {kContext, 16}, {kContext, kVocabulary}};
  EXPECT_EQ(shapes(lstm()), expected);
}

TEST(Lstm, StepsWrittenOutComputeTheSame) {
  const Model model = lstm();
  PlainLstm plain(2, 16, kVocabulary);
  plain.take_weights(initial_weights(model));
  const Outcome found = run_blocks(model, {0, 2}, {});
  const at::Tensor outputs = plain.forward(samples(model));
  outputs.square().sum().backward();
  EXPECT_TRUE(at::allclose(found.outputs, outputs, 1e-5, 1e-6));
  for (const auto& [name, gradient] : found.gradients)
    EXPECT_TRUE(at::allclose(gradient, plain.named_parameters()[name].grad(),
                             1e-4, 1e-5))
        << name;
}

TEST(Lstm, APlaceSeesNoLaterToken) {
  const Model model = lstm();
  const at::Tensor tokens = samples(model);
  at::Tensor changed = tokens.clone();
  changed.select(1, 7).add_(1).remainder_(kVocabulary);
  const at::Tensor before = logits(model, tokens);
  const at::Tensor after = logits(model, changed);
  EXPECT_TRUE(at::equal(before.slice(1, 0, 7), after.slice(1, 0, 7)));
  for (std::int64_t place = 7; place < kContext; ++place)
    EXPECT_FALSE(at::equal(before.select(1, place), after.select(1, place)));
}

TEST(Lstm, ATextKnowsNothingOfTheOneBefore) {
  const Model model = lstm();
  Block block = make_block(model, 1);
  const at::Tensor tokens = samples(model);
  const at::Tensor first = block.forward({tokens}, {}).at(0).detach();
  EXPECT_TRUE(at::equal(block.forward({tokens}, {}).at(0).detach(), first));
}

TEST(Lstm, AnotherBatchHasOtherMasksAndEvaluationNone) {
  const Model dropping = lstm(0.2);
  const at::Tensor tokens = samples(dropping);
  EXPECT_FALSE(at::equal(logits(dropping, tokens, {.seed = 1, .batch = 2}),
                         logits(dropping, tokens, {.seed = 1, .batch = 3})));
  EXPECT_TRUE(at::equal(logits(dropping, tokens, {.training = false}),
                        logits(lstm(), tokens, {.training = false})));
}

TEST(Lstm, WeightsAndBothBiasesBeginWithinLibTorchsBound) {
  const auto layer = make_layer(lstm(), 1);
  for (const auto& item : layer->named_parameters()) {
    const double largest = item.value().abs().max().item<double>();
    EXPECT_LE(largest, 1 / std::sqrt(16.0)) << item.key();
    EXPECT_GT(largest, 0.8 / std::sqrt(16.0)) << item.key();
  }
}

}  // namespace sluice::lstm_test
