// Issue 18, item 14: what a head or a predictor sends back to features in
// channels-last order lies in that order, and its numbers are those of other
// orders. The head `linear` sent it in the other one, and 38 % of the time of
// block 1 was a strided copy.
#include <ostream>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "auxiliary_heads/predictors/predictors.h"
#include "modules/models.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::layout_test {

struct Case {
  std::string_view head;
  ConfigNode options = {};
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.head;
}

ConfigNode option(const std::string& key, ConfigNode::Value value) {
  ConfigNode options;
  options.set(key, ConfigNode{.value = std::move(value)});
  return options;
}

/// Weights of infopro's two parts, the same at every head.
ConfigNode weights(double lambda1, double lambda2) {
  const auto twice = [](double value) {
    ConfigNode::Array values;
    values.emplace_back().value = value;
    values.emplace_back().value = value;
    return ConfigNode{.value = values};
  };
  ConfigNode options;
  options.set("lambda1", twice(lambda1));
  options.set("lambda2", twice(lambda2));
  return options;
}

ConfigNode man_with(const std::string& head) {
  ConfigNode options;
  options.set("head", option("name", head));
  return options;
}

const Model& model() {
  static const Model resnet = make_model("resnet20", {{3, 10, 8}, 3});
  return resnet;
}

/// Above the stem of the net.
BoundarySite site_on_maps() {
  BoundarySite site = site_of(model().layers[0].output);
  site.layer = 0;
  site.model = &model();
  return site;
}

at::Tensor maps(at::MemoryFormat format) {
  return features_of(site_on_maps().features)
      .detach()
      .contiguous(format)
      .requires_grad_();
}

/// As a policy asks for it: in the order in which it comes.
at::Tensor gradient_at(const at::Tensor& features, const Case& of) {
  const auto head = make_head(of.head, site_on_maps(), of.options);
  for (at::Tensor& parameter : head->parameters())
    parameter.detach().add_(0.1);  // no first step's zeros
  const at::Tensor image = at::sigmoid(features_of({3, 10, 8}).detach());
  const HeadResult result =
      head->forward({features}, {.labels = six_labels(), .raw_input = image});
  return torch::autograd::grad({result.loss}, {features}).at(0);
}

class HeadLayout : public testing::TestWithParam<Case> {};

TEST_P(HeadLayout, TheGradientLiesAsTheFeaturesDo) {
  const at::Tensor features = maps(at::MemoryFormat::ChannelsLast);
  const at::Tensor gradient = gradient_at(features, GetParam());
  EXPECT_EQ(gradient.strides(), features.strides());
  EXPECT_NE(gradient.strides(), maps(at::MemoryFormat::Contiguous).strides());
}

TEST_P(HeadLayout, TheGradientIsThatOfOtherLayouts) {
  const at::Tensor gradient =
      gradient_at(maps(at::MemoryFormat::ChannelsLast), GetParam());
  const at::Tensor plain =
      gradient_at(maps(at::MemoryFormat::Contiguous), GetParam());
  EXPECT_GT(plain.abs().max().item<double>(), 0);
  EXPECT_TRUE(at::allclose(gradient, plain, 1e-3, 1e-5));
}

std::vector<Case> cases() {
  return {{"linear"},
          {"linear", option("pool", std::int64_t{2})},
          {"linear", option("pool", std::int64_t{3})},
          {"predsim"},
          {"predsim", option("dim_in_decoder", std::int64_t{64})},
          {"predsim", option("beta", 0.0)},
          {"predsim", option("beta", 1.0)},
          {"mlp_sr"},
          {"mlp_sr", option("conv_layers", std::int64_t{0})},
          {"conv"},
          {"conv", option("layers", std::int64_t{0})},
          {"full_conv"},
          {"aug_local"},
          {"1c2f"},
          {"infopro", weights(1, 1)},
          {"infopro", weights(1, 0)},
          {"man"},
          {"man", man_with("conv")},
          {"mono_forward"},
          {"mono_forward", option("pool", std::int64_t{2})},
          {"ridge"},
          {"ridge", option("pool", std::int64_t{2})}};
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadLayout, testing::ValuesIn(cases()));

TEST(HeadLayouts, AreTestedOfEveryHeadThatTakesMaps) {
  std::set<std::string_view> tested = {"vocabulary", "forward_forward"};
  for (const Case& each : cases()) tested.insert(each.head);
  for (const HeadRow& row : heads()) EXPECT_TRUE(tested.contains(row.name));
}

TEST(SynthesizerLayout, ItsSignalLiesAsTheFeaturesDo) {
  const at::Tensor features = maps(at::MemoryFormat::ChannelsLast);
  for (const std::int64_t hidden : {0, 2})
    for (const bool label : {false, true}) {
      ConfigNode options = option("hidden", hidden);
      options.set("label", ConfigNode{.value = label});
      Fields fields(&options, "synthesizer");
      const auto synthesizer = configure_synthesizer(fields)(site_on_maps());
      const at::Tensor signal =
          synthesizer->forward(features.detach(), six_labels(), {});
      EXPECT_EQ(signal.strides(), features.strides()) << hidden << label;
    }
}

TEST(InputModelLayout, ItsFeaturesLieAsTheImagesDo) {
  const at::Tensor images = features_of({3, 10, 8})
                                .detach()
                                .contiguous(at::MemoryFormat::ChannelsLast);
  BoundarySite site = site_on_maps();
  for (const SampleShape& features :
       {SampleShape{16, 10, 8}, SampleShape{16, 5, 4}, SampleShape{16, 3, 3}}) {
    site.features = features;
    const ConfigNode options = option("hidden", std::int64_t{1});
    Fields fields(&options, "unlock");
    const auto input_model = configure_input_model(fields)(site);
    EXPECT_TRUE(input_model->forward(images, six_labels(), {})
                    .is_contiguous(at::MemoryFormat::ChannelsLast))
        << features[1];
  }
}

}  // namespace sluice::layout_test
