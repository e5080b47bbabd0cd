#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "modules/label_in_sample.h"
#include "tests/modules/build.h"

namespace sluice::ff_mlp_test {

using at::Tensor;

const Model& model() {
  static const Model net = build_model(
      "ff_mlp", table({{"hidden", list({20, 18, 16})}}), {{2, 3, 4}, 5});
  return net;
}

Tensor activity(const SampleShape& sizes, std::string_view purpose) {
  return at::randn(sizes, Pass{}.generator(purpose));
}

/// One layer written out.
Tensor plain_layer(const Tensor& x, const NamedTensors& weights,
                   std::size_t i) {
  const Tensor length = x.square().mean(-1, true).sqrt();
  return at::relu(
      at::linear(x / length, weights[2 * i].second, weights[2 * i + 1].second));
}

TEST(LabelInSample, ReplacesTheFirstValues) {
  const Tensor samples = activity({2, 1, 2, 3}, "samples");
  const Tensor both =
      with_labels(samples, at::tensor({0, 2, 1, 1}, at::kLong).view({2, 2}), 3);
  ASSERT_EQ(both.sizes(), (SampleShape{2, 2, 6}));
  EXPECT_TRUE(
      at::equal(both[0][1].slice(0, 0, 3), at::tensor({0.0F, 0.0F, 3.0F})));
  EXPECT_TRUE(at::equal(both[1][0], both[1][1]));
  EXPECT_TRUE(
      at::equal(both.slice(2, 3),
                samples.flatten(1).slice(1, 3).unsqueeze(1).expand({2, 2, 3})));
}

TEST(FfMlp, ALayerIsBlindToTheLengthOfItsInput) {
  const auto layer = make_layer(model(), 1);
  const Tensor h = activity({6, 2, 20}, "h");
  const Tensor out = layer->forward({h}, {}).front();
  EXPECT_TRUE(at::allclose(layer->forward({h * 37}, {}).front(), out));
  EXPECT_FALSE(at::allclose(layer->forward({h + 1}, {}).front(), out));
  // So goodness can't be handed up: that of h is 37^2 times as large.
}

TEST(FfMlp, InTrainingGivesTheGoodnessOfItsLastLayer) {
  Block net = make_block(model(), 1);
  const Tensor pairs = activity({6, 2, 24}, "pairs");
  Tensor h = pairs;
  for (const std::size_t i : {0, 1, 2}) h = plain_layer(h, net.parameters(), i);
  const Tensors outputs = net.forward({pairs}, {.training = true});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_TRUE(at::allclose(outputs[0], h.square().sum(-1)));
}

TEST(FfMlp, InEvaluationTriesEveryClassOnAllLayersButTheFirst) {
  Block net = make_block(model(), 1);
  const Tensor samples = activity({6, 2, 3, 4}, "samples");
  const Tensor found = net.forward({samples}, {.training = false}).front();
  ASSERT_EQ(found.sizes(), (SampleShape{6, 5}));
  for (const std::int64_t label : {0, 3, 4}) {
    const Tensor labels = at::full({6, 1}, label, at::kLong);
    Tensor h = plain_layer(with_labels(samples, labels, 5).squeeze(1),
                           net.parameters(), 0);
    Tensor goodness = at::zeros({6});
    for (const std::size_t i : {1, 2}) {
      h = plain_layer(h, net.parameters(), i);
      goodness = goodness + h.square().sum(-1);
    }
    EXPECT_TRUE(at::allclose(found.select(1, label), goodness)) << label;
  }
}

TEST(FfMlp, EvaluatesTheSameForAnyCut) {
  const Tensor samples = activity({6, 2, 3, 4}, "samples");
  Tensors values = {samples};
  for (const std::size_t i : {0, 1, 2}) {
    const auto layer = make_layer(model(), i);
    layer->eval();
    values = layer->forward(values, {.training = false});
  }
  Block net = make_block(model(), 1);
  EXPECT_TRUE(at::equal(net.forward({samples}, {.training = false}).front(),
                        values.front()));
}

TEST(FfMlp, FfMlpOfOneLayerHasItsGoodness) {
  const Model one =
      build_model("ff_mlp", table({{"hidden", list({20})}}), {{24}, 5});
  Block net = make_block(one, 1);
  const Tensor found =
      net.forward({activity({6, 24}, "x")}, {.training = false}).front();
  EXPECT_GT(found.min().item<double>(), 0);
}

TEST(FfMlp, TrainsOnPairsOnly) {
  Block net = make_block(model(), 1);
  EXPECT_THROW(net.forward({activity({6, 2, 3, 4}, "x")}, {.training = true}),
               UserError);
}

}  // namespace sluice::ff_mlp_test
