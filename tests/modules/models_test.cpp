#include "modules/models.h"

#include <algorithm>
#include <ostream>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/modules/build.h"

namespace sluice::models_test {

struct Case {
  std::string_view model;
  ConfigNode options = {};
  SampleSpec sample = {{1, 28, 28}, 10};
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.model;
}

Model build(const Case& of) {
  return build_model(of.model, of.options, of.sample);
}

class ModelContract : public testing::TestWithParam<Case> {};

void expect_same(const Outcome& found, const Outcome& expected,
                 const std::string& cut) {
  EXPECT_TRUE(at::equal(found.outputs, expected.outputs)) << cut;
  ASSERT_EQ(found.gradients.size(), expected.gradients.size()) << cut;
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    const auto& [name, gradient] = found.gradients[i];
    EXPECT_EQ(name, expected.gradients[i].first);
    EXPECT_TRUE(at::equal(gradient, expected.gradients[i].second))
        << name << ", " << cut;
  }
}

const Pass kTraining = {.seed = 5, .batch = 3};
const Pass kEvaluation = {.seed = 5, .batch = 3, .training = false};

/// All of small models; of deep ones eight, since those with a block per layer
/// have every cut.
TEST_P(ModelContract, SplitsEqualTheUndividedNetwork) {
  const Model model = build(GetParam());
  const std::int64_t step =
      std::max<std::int64_t>(1, std::ssize(model.layers) / 8);
  for (const Pass& pass : {kTraining, kEvaluation}) {
    const Outcome expected = run_blocks(model, {0}, pass);
    for (std::int64_t cut = 1; cut < std::ssize(model.layers); cut += step) {
      expect_same(run_blocks(model, {0, cut}, pass), expected,
                  "cut at " + std::to_string(cut));
    }
  }
}

TEST_P(ModelContract, ABlockPerLayerEqualsTheUndividedNetwork) {
  const Model model = build(GetParam());
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < std::ssize(model.layers); ++i) all.push_back(i);
  expect_same(run_blocks(model, all, kTraining),
              run_blocks(model, {0}, kTraining), "cut everywhere");
}

// Biases are left out: a norm or a softmax behind one takes its gradient away.
TEST_P(ModelContract, EveryWeightHasAGradient) {
  const Outcome outcome = run_blocks(build(GetParam()), {0}, kTraining);
  for (const auto& [name, gradient] : outcome.gradients) {
    if (name.ends_with("bias")) continue;
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
  }
}

TEST_P(ModelContract, OutputsHaveTheShapesThatTheListSays) {
  const Model model = build(GetParam());
  Tensors values = {samples(model)};
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    values = make_layer(model, i)->forward(values, {});
    EXPECT_EQ(values[0].sizes().slice(1).vec(), model.layers[i].output);
  }
  ASSERT_EQ(values.size(), 1U);
  SampleShape expected = {4, model.sample.classes};
  if (model.sample.is_text) expected.insert(expected.begin() + 1, 12);
  EXPECT_EQ(values[0].sizes().vec(), expected);
}

TEST_P(ModelContract, EveryEntryHasAPriceAndAName) {
  for (const LayerSpec& layer : build(GetParam()).layers) {
    EXPECT_GT(layer.flops, 0) << layer.name;
    EXPECT_FALSE(layer.name.empty());
  }
}

TEST_P(ModelContract, SameSeedGivesTheSameWeightsAndAnotherGivesOthers) {
  const Model model = build(GetParam());
  const NamedTensors one = initial_weights(model, 7);
  const NamedTensors same = initial_weights(model, 7);
  const NamedTensors other = initial_weights(model, 8);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(at::equal(one[i].second, same[i].second)) << one[i].first;
  EXPECT_FALSE(at::equal(one[0].second, other[0].second));
}

const SampleSpec kTinyText = {{12}, 11, /*is_text=*/true};

ConfigNode tiny_gpt(
    std::vector<std::pair<std::string, ConfigNode::Value>> more = {}) {
  ConfigNode options = table({{"layers", std::int64_t{2}},
                              {"width", std::int64_t{16}},
                              {"heads", std::int64_t{2}}});
  for (auto& [key, value] : more)
    options.set(key, ConfigNode{.value = std::move(value)});
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelContract,
    testing::Values(
        Case{"mlp"},
        Case{"mlp", table({{"hidden", list({32, 24, 16})},
                           {"activation", "tanh"},
                           {"batch_norm", true},
                           {"dropout", 0.5}})},
        Case{"mlp", table({{"activation", "leaky_relu"}}), {{20}, 10}},
        Case{"conv3",
             table({{"channels", std::int64_t{8}}, {"dropout", 0.25}})},
        Case{"conv3",
             table({{"channels", std::int64_t{8}}, {"batch_norm", false}}),
             {{3, 32, 32}, 10}},
        Case{"small_conv", table({{"batch_norm", true}, {"dropout", 0.5}})},
        Case{"vgg8b", table({{"width", 0.0625}, {"dropout", 0.2}})},
        Case{"vgg11b",
             table({{"width", 0.0625},
                    {"dropout", 0.2},
                    {"head_before_pool", false},
                    {"activation", "leaky_relu"}}),
             {{3, 32, 32}, 10}},
        Case{"resnet",
             table({{"depth", std::int64_t{14}}, {"width", std::int64_t{4}}}),
             {{3, 13, 10}, 10}},
        Case{
            "resnet18", table({{"width", std::int64_t{4}}}), {{3, 13, 10}, 10}},
        Case{"resnet50",
             table({{"width", std::int64_t{2}}, {"stem", std::int64_t{64}}}),
             {{3, 37, 34}, 10}},
        Case{"revnet",
             table({{"width", std::int64_t{8}}, {"blocks", list({2, 1})}}),
             {{3, 13, 10}, 10}},
        Case{"vit", tiny_gpt({{"dropout", 0.2}})},
        Case{"vit", tiny_gpt({{"pool", "mean"}}), {{3, 12, 8}, 10}},
        Case{"mlp_mixer",
             table({{"layers", std::int64_t{2}},
                    {"width", std::int64_t{16}},
                    {"dropout", 0.2}}),
             {{3, 12, 8}, 10}},
        Case{"lstm", table({{"width", std::int64_t{16}}, {"dropout", 0.2}}),
             kTinyText},
        Case{"llama", tiny_gpt({{"kv_heads", std::int64_t{1}}}), kTinyText},
        Case{"gpt", tiny_gpt(), kTinyText},
        Case{"gpt", tiny_gpt({{"dropout", 0.2}, {"bias", false}}), kTinyText},
        Case{"gpt", tiny_gpt({{"tied", true}}), kTinyText},
        Case{"gpt",
             tiny_gpt(
                 {{"tied", true}, {"dropout", 0.2}, {"activation", "gelu"}}),
             kTinyText}));

TEST(Mlp, ParametersAreNamedByTheirKind) {
  const Model model =
      build_model("mlp", table({{"hidden", list({8})}, {"batch_norm", true}}));
  const std::vector<std::string> expected = {
      "layers.0.linear.weight", "layers.0.linear.bias",
      "layers.0.norm.weight",   "layers.0.norm.bias",
      "layers.1.linear.weight", "layers.1.linear.bias"};
  EXPECT_EQ(parameter_names(model), expected);
}

TEST(Mlp, CostIsDominatedByTheProducts) {
  const Model model = build_model("mlp", table({{"hidden", list({100})}}));
  EXPECT_EQ(model.layers[0].flops, 784 * 100 + 100);
  EXPECT_EQ(model.layers[1].flops, 100 * 10);
}

TEST(Mlp, WithoutHiddenLayersIsALinearClassifier) {
  const Model model = build_model("mlp", table({{"hidden", list({})}}));
  ASSERT_EQ(model.layers.size(), 1U);
  EXPECT_EQ(model.layers[0].name, "flatten, linear 784->10");
}

TEST(Conv3, ShrinksCifarImagesTo10And3And1) {
  const std::vector<SampleShape> expected = {
      {128, 10, 10}, {128, 3, 3}, {128, 1, 1}, {10}};
  EXPECT_EQ(shapes(build_model("conv3", {}, {{3, 32, 32}, 10})), expected);
}

TEST(Conv3, ShrinksMnistImagesTo9And3And1) {
  const std::vector<SampleShape> expected = {
      {128, 9, 9}, {128, 3, 3}, {128, 1, 1}, {10}};
  EXPECT_EQ(shapes(build_model("conv3")), expected);
}

TEST(Conv3, HasTheParametersOfThePapersNet) {
  // 0.83 M: 3 convolutions with biases, 3 norms, the linear layer.
  const std::int64_t expected = (3 * 25 * 128 + 128) +
                                2 * (128 * 25 * 128 + 128) + 3 * 2 * 128 +
                                (128 * 10 + 10);
  EXPECT_EQ(parameter_count(build_model("conv3", {}, {{3, 32, 32}, 10})),
            expected);
}

TEST(Conv3, CostOfItsFirstEntryIsThatOfConvolutionNormReluAndPool) {
  const Model model = build_model("conv3", {}, {{3, 32, 32}, 10});
  const double convolved = 128.0 * 32 * 32;
  EXPECT_EQ(model.layers[0].flops,
            convolved * (3 * 25) + 2 * convolved + convolved + convolved);
}

TEST(Conv3, FirstPoolIsAMaximumAndTheSecondAnAverage) {
  const Model model = build_model("conv3");
  EXPECT_NE(model.layers[0].name.find("max pool"), std::string::npos);
  EXPECT_NE(model.layers[1].name.find("average pool"), std::string::npos);
  EXPECT_NE(model.layers[2].name.find("average pool"), std::string::npos);
}

TEST(SmallConv, IsTwoConvolutionsAndTwoLinearLayers) {
  const std::vector<SampleShape> expected = {
      {16, 14, 14}, {32, 7, 7}, {128}, {10}};
  EXPECT_EQ(shapes(build_model("small_conv")), expected);
}

TEST(SmallConv, ConvolutionsAndNormsAreNamedByTheirKind) {
  const auto layer =
      build_model("small_conv", table({{"batch_norm", true}})).layers[0].make();
  const std::vector<std::string> expected = {"conv.weight", "conv.bias",
                                             "norm.weight", "norm.bias"};
  EXPECT_EQ(layer->named_parameters().keys(), expected);
}

TEST(Models, SamplesOfTwoDimensionsAreRefused) {
  EXPECT_THROW(build_model("mlp", {}, {{28, 28}, 10}), UserError);
}

TEST(Models, SamplesOfTwoDimensionsAreNoText) {
  EXPECT_THROW(build_model("gpt", {}, {{28, 28}, 10}), UserError);
}

}  // namespace sluice::models_test
