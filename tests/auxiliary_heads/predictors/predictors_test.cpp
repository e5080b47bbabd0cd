// Predictors in both uses: names of their parameters, first predictions, and
// shapes of inputs.
#include "auxiliary_heads/predictors/predictors.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::predictors_test {

using testing::ElementsAre;
using testing::HasSubstr;

/// A predictor of one hidden layer that gets the labels.
std::shared_ptr<Predictor> predictor(ConfigurePredictor configure,
                                     const SampleShape& features) {
  static const Model model{.layers = {},
                           .sample = {.shape = {1, 8, 8}, .classes = 3}};
  ConfigNode options;
  options.set("hidden", ConfigNode{.value = std::int64_t{1}});
  options.set("label", ConfigNode{.value = true});
  Fields fields(&options, "test");
  BoundarySite site = site_of(features);
  site.model = &model;
  return configure(fields)(site);
}

class BothUses : public testing::TestWithParam<ConfigurePredictor> {};

/// Checkpoints have these names, and weights are drawn by them.
TEST_P(BothUses, NameLayersByTheFeatures) {
  EXPECT_THAT(predictor(GetParam(), {5})->named_parameters().keys(),
              ElementsAre("linear1.weight", "linear1.bias", "last.weight",
                          "last.bias", "label.weight"));
  EXPECT_THAT(
      predictor(GetParam(), {4, 5, 5})->named_parameters().keys(),
      ElementsAre("conv1.weight", "conv1.bias", "norm1.weight", "norm1.bias",
                  "last.weight", "last.bias", "label.weight"));
}

INSTANTIATE_TEST_SUITE_P(Predictors, BothUses,
                         testing::Values(configure_synthesizer,
                                         configure_input_model));

TEST(Predictors, PredictorsOfGradientsBeginAtZeroThoseOfFeaturesDont) {
  for (const SampleShape& shape : {SampleShape{5}, SampleShape{4, 5, 5}}) {
    const at::Tensor gradient =
        predictor(configure_synthesizer, shape)
            ->forward(features_of(shape).detach(), six_labels(), {});
    const at::Tensor features =
        predictor(configure_input_model, shape)
            ->forward(features_of({1, 8, 8}).detach(), six_labels(), {});
    EXPECT_EQ(gradient.sizes(), features.sizes());
    EXPECT_EQ(gradient.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_GT(features.count_nonzero().item<std::int64_t>(), 0);
  }
}

/// Tokens of images have features [N, T, C] and a label a sample.
TEST(Predictors, PredictorsOfGradientsTellEveryTokenOfAnImageItsLabel) {
  const auto told = predictor(configure_synthesizer, {7, 5});
  for (at::Tensor& parameter : told->parameters())
    parameter.detach().fill_(0.1);
  const at::Tensor tokens = features_of({1, 5}).detach().expand({6, 7, 5});
  const at::Tensor found = told->forward(tokens, six_labels(), {});
  EXPECT_EQ(found.sizes(), tokens.sizes());
  EXPECT_TRUE(at::allclose(found.select(1, 0), found.select(1, 6)));
}

/// Pairs, of models that train on them, have features [N, 2, C].
TEST(Predictors, PredictorsOfGradientsKeepTheShapeOfPairs) {
  const at::Tensor pairs = features_of({2, 5}).detach();
  const at::Tensor labels = at::zeros({6, 1}, at::kLong);
  EXPECT_EQ(
      predictor(configure_synthesizer, {5})->forward(pairs, labels, {}).sizes(),
      pairs.sizes());
}

TEST(Predictors, PredictorsOfGradientsRefuseOtherFeatures) {
  try {
    predictor(configure_synthesizer, {2, 3, 4, 5});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("block 1: there is no synthesizer for "
                                        "features of 4 dimensions"));
  }
}

}  // namespace sluice::predictors_test
