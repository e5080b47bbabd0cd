#include "modules/models.h"

#include <ostream>

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/modules/build.h"

namespace sluice {
namespace {

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

at::Tensor samples(const Model& model, std::int64_t count = 4) {
  std::vector<std::int64_t> sizes = {count};
  const SampleShape& shape = model.sample.shape;
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return at::randn(sizes, Pass{}.generator("samples"));
}

/// The outputs and the gradient at the input.
struct Outcome {
  at::Tensor outputs;
  at::Tensor gradient;
};

Outcome run_undivided(const Model& model, const Pass& pass) {
  const at::Tensor input = samples(model).requires_grad_();
  at::Tensor value = input;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    value = run_layer(*make_layer(model, i), i, value, pass);
  value.square().sum().backward();
  return {value.detach(), input.grad()};
}

/// Two blocks, the upper made first; tensors alone pass from one to the other.
Outcome run_split(const Model& model, std::size_t cut, const Pass& pass) {
  const std::size_t end = model.layers.size();
  Layers layers(end);
  for (std::size_t i = end; i > 0; --i)
    layers[i - 1] = make_layer(model, i - 1);
  const at::Tensor input = samples(model).requires_grad_();
  at::Tensor value = input;
  for (std::size_t i = 0; i < cut; ++i)
    value = run_layer(*layers[i], i, value, pass);
  const at::Tensor received = value.detach().clone().requires_grad_();
  at::Tensor upper = received;
  for (std::size_t i = cut; i < end; ++i)
    upper = run_layer(*layers[i], i, upper, pass);
  upper.square().sum().backward();
  value.backward(received.grad());
  return {upper.detach(), input.grad()};
}

class ModelContract : public testing::TestWithParam<Case> {};

TEST_P(ModelContract, EverySplitEqualsTheUndividedNetwork) {
  const Model model = build(GetParam());
  const Pass pass = {.seed = 5, .batch = 3};
  const Outcome expected = run_undivided(model, pass);
  for (std::size_t cut = 1; cut < model.layers.size(); ++cut) {
    const Outcome found = run_split(model, cut, pass);
    EXPECT_TRUE(at::equal(found.outputs, expected.outputs)) << "cut " << cut;
    EXPECT_TRUE(at::equal(found.gradient, expected.gradient)) << "cut " << cut;
  }
}

TEST_P(ModelContract, OutputsHaveTheShapesThatTheListSays) {
  const Model model = build(GetParam());
  at::Tensor value = samples(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    value = run_layer(*make_layer(model, i), i, value, {});
    EXPECT_EQ(value.sizes().slice(1).vec(), model.layers[i].output);
  }
  EXPECT_EQ(value.sizes().vec(), (std::vector<std::int64_t>{4, 10}));
}

TEST_P(ModelContract, NoLayerWritesItsInput) {
  const Model model = build(GetParam());
  at::Tensor value = samples(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const at::Tensor before = value.clone();
    const at::Tensor after = run_layer(*make_layer(model, i), i, value, {});
    EXPECT_TRUE(at::equal(value, before)) << model.layers[i].name;
    value = after;
  }
}

TEST_P(ModelContract, EveryEntryHasAPriceAndAName) {
  for (const LayerSpec& layer : build(GetParam()).layers) {
    EXPECT_GT(layer.flops, 0) << layer.name;
    EXPECT_FALSE(layer.name.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelContract,
    testing::Values(
        Case{"mlp"},
        Case{"mlp", table({{"hidden", list({32, 24, 16})},
                           {"activation", "tanh"},
                           {"batch_norm", true},
                           {"dropout", 0.5}})},
        Case{"mlp", table({{"activation", "leaky_relu"}}), {20}},
        Case{"conv3",
             table({{"channels", std::int64_t{8}}, {"dropout", 0.25}})},
        Case{"conv3",
             table({{"channels", std::int64_t{8}}, {"batch_norm", false}}),
             {{3, 32, 32}, 10}},
        Case{"small_conv", table({{"batch_norm", true}, {"dropout", 0.5}})}));

std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const auto& item : model.layers[i].make()->named_parameters())
      names.push_back(std::to_string(i) + "." + item.key());
  }
  return names;
}

TEST(Mlp, ParametersAreNamedByTheirKind) {
  const Model model =
      build_model("mlp", table({{"hidden", list({8})}, {"batch_norm", true}}));
  const std::vector<std::string> expected = {
      "0.linear.weight", "0.linear.bias",   "0.norm.weight",
      "0.norm.bias",     "1.linear.weight", "1.linear.bias"};
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

TEST(Mlp, AnUnknownActivationIsRefused) {
  EXPECT_THROW(build_model("mlp", table({{"activation", "reul"}})), UserError);
}

TEST(Mlp, AWidthOfZeroIsRefused) {
  EXPECT_THROW(build_model("mlp", table({{"hidden", list({8, 0})}})),
               UserError);
}

std::vector<SampleShape> shapes(const Model& model) {
  std::vector<SampleShape> found;
  for (const LayerSpec& layer : model.layers) found.push_back(layer.output);
  return found;
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
  std::int64_t found = 0;
  for (const LayerSpec& layer :
       build_model("conv3", {}, {{3, 32, 32}, 10}).layers) {
    for (const at::Tensor& parameter : layer.make()->parameters())
      found += parameter.numel();
  }
  EXPECT_EQ(found, expected);
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

TEST(Conv3, ImagesThatVanishInThePoolsAreRefused) {
  EXPECT_THROW(build_model("conv3", {}, {{1, 8, 8}, 10}), UserError);
}

TEST(Conv3, FlatSamplesAreRefused) {
  EXPECT_THROW(build_model("conv3", {}, {{784}, 10}), UserError);
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

}  // namespace
}  // namespace sluice
