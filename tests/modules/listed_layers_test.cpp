#include <ostream>

#include <gtest/gtest.h>

#include "tests/modules/build.h"

namespace sluice::listed_layers_test {

using Entries = std::vector<std::pair<std::string, ConfigNode::Value>>;

const SampleSpec kDigits = {{1, 28, 28}, 10};
const SampleSpec kText = {{12}, 11, /*is_text=*/true};

/// Tables, each {type = ..., options}.
Model listed(const std::vector<Entries>& layers,
             const SampleSpec& sample = kDigits) {
  ConfigNode::Array list;
  for (const Entries& layer : layers) list.push_back(table(layer));
  ConfigNode options;
  options.set("layer", ConfigNode{.value = std::move(list)});
  return build_model("layers", options, sample);
}

Entries of_type(const char* type, Entries options = {}) {
  options.insert(options.begin(),
                 Entries::value_type("type", std::string(type)));
  return options;
}

Entries linear(std::int64_t outputs) {
  return of_type("linear", {{"outputs", outputs}});
}

Entries conv3x3(std::int64_t channels) {
  return of_type("conv",
                 {{"channels", channels}, {"padding", std::int64_t{1}}});
}

void expect_same_bits(const Model& found, const Model& expected) {
  const Pass pass = {.seed = 5, .batch = 3};
  const Outcome one = run_blocks(found, {0}, pass);
  const Outcome other = run_blocks(expected, {0}, pass);
  EXPECT_TRUE(at::equal(one.outputs, other.outputs));
  ASSERT_EQ(one.gradients.size(), other.gradients.size());
  for (std::size_t i = 0; i < one.gradients.size(); ++i) {
    EXPECT_EQ(one.gradients[i].first, other.gradients[i].first);
    EXPECT_TRUE(at::equal(one.gradients[i].second, other.gradients[i].second))
        << one.gradients[i].first;
  }
}

TEST(ListedLayers, ListedLayersOfAnMlpHaveTheBitsOfMlp) {
  const Entries norm = of_type("batch_norm");
  const Entries relu = of_type("relu");
  const Entries dropout = of_type("dropout", {{"p", 0.25}});
  const Model found =
      listed({of_type("flatten"), linear(24), norm, relu, dropout, linear(16),
              norm, relu, dropout, of_type("linear")});
  const Model expected = build_model("mlp", table({{"hidden", list({24, 16})},
                                                   {"batch_norm", true},
                                                   {"dropout", 0.25}}));
  expect_same_bits(found, expected);
  EXPECT_EQ(shapes(found), shapes(expected));
}

TEST(ListedLayers, ListedLayersOfASmallConvHaveItsBits) {
  const Entries relu = of_type("relu");
  const Entries pool = of_type("max_pool");
  const std::vector<Entries> layers = {conv3x3(16),
                                       relu,
                                       pool,
                                       conv3x3(32),
                                       relu,
                                       pool,
                                       of_type("flatten", {{"cut", true}}),
                                       linear(128),
                                       relu,
                                       linear(10)};
  const Model expected = build_model("small_conv");
  expect_same_bits(listed(layers), expected);
  EXPECT_EQ(shapes(listed(layers)), shapes(expected));
}

TEST(ListedLayers, CutsChangeNoBit) {
  const Entries cut_relu = of_type("relu", {{"cut", true}});
  const Model model =
      listed({conv3x3(4), of_type("batch_norm"), cut_relu,
              of_type("global_pool", {{"cut", true}}),
              of_type("dropout", {{"p", 0.5}}), of_type("linear")});
  ASSERT_EQ(model.layers.size(), 3U);
  const Pass pass = {.seed = 5, .batch = 3};
  const Outcome whole = run_blocks(model, {0}, pass);
  const Outcome cut = run_blocks(model, {0, 1, 2}, pass);
  EXPECT_TRUE(at::equal(cut.outputs, whole.outputs));
  for (std::size_t i = 0; i < whole.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(cut.gradients[i].second, whole.gradients[i].second));
}

TEST(ListedLayers, ListedLayersOfATextMapEveryPlace) {
  const Model model = listed(
      {of_type("embedding", {{"width", std::int64_t{8}}}),
       of_type("layer_norm"), linear(16), of_type("gelu"), of_type("linear")},
      kText);
  const std::vector<SampleShape> expected = {{12, 8}, {12, 16}, {12, 11}};
  EXPECT_EQ(shapes(model), expected);
  EXPECT_EQ(run_blocks(model, {0, 1, 2}, {}).outputs.sizes().vec(),
            (std::vector<std::int64_t>{4, 12, 11}));
}

TEST(ListedLayers, EveryTypeRuns) {
  const Model model =
      listed({of_type("conv",
                      {{"size", std::int64_t{5}}, {"stride", std::int64_t{2}}}),
              of_type("leaky_relu"), of_type("avg_pool"),
              of_type("dropout", {{"unit", "channel"}}), of_type("flatten"),
              of_type("layer_norm"), of_type("tanh"), of_type("linear")});
  EXPECT_EQ(run_blocks(model, {0}, {}).outputs.sizes().vec(),
            (std::vector<std::int64_t>{4, 10}));
}

TEST(ListedLayers, AnEntryWithoutWeightsHasANameAndItsShape) {
  const Model model =
      listed({conv3x3(4), of_type("dropout", {{"p", 0.0}, {"cut", true}}),
              of_type("flatten", {{"cut", true}}), of_type("linear")});
  ASSERT_EQ(model.layers.size(), 3U);
  EXPECT_EQ(model.layers[1].output, (SampleShape{4, 28, 28}));
  EXPECT_EQ(model.layers[1].name, "no weights");
}

}  // namespace sluice::listed_layers_test
