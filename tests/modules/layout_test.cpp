// Issue 18, item 14: every layer of a net of maps sends its gradient back in
// the order in which its input lies.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "tests/modules/build.h"

namespace sluice::layer_layout_test {

struct Case {
  std::string_view model;
  ConfigNode options = {};
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.model;
}

class LayerLayout : public testing::TestWithParam<Case> {};

TEST_P(LayerLayout, TheGradientLiesAsTheInputDoes) {
  const Model model = build_model(GetParam().model, GetParam().options,
                                  SampleSpec{{3, 32, 32}, 10});
  int maps = 0;
  for (std::size_t i = 1; i < model.layers.size(); ++i) {
    SampleShape shape = model.layers[i - 1].output;
    if (shape.size() != 3 || shape[1] * shape[2] == 1) continue;
    ++maps;
    shape.insert(shape.begin(), 4);
    const at::Tensor input = at::randn(shape, Pass{}.generator("input"))
                                 .contiguous(at::MemoryFormat::ChannelsLast)
                                 .requires_grad_();
    const at::Tensor output = make_layer(model, i)->forward({input}, {}).at(0);
    const auto gradient =
        torch::autograd::grad({output.square().sum()}, {input}).at(0);
    EXPECT_EQ(gradient.strides(), input.strides())
        << "layer " << i << ", " << model.layers[i].name;
  }
  EXPECT_GT(maps, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Models, LayerLayout,
    testing::Values(Case{"conv3"}, Case{"small_conv"},
                    Case{"small_conv", table({{"batch_norm", true}})},
                    Case{"resnet20"},
                    Case{"resnet18", table({{"width", std::int64_t{8}}})},
                    Case{"resnet50", table({{"width", std::int64_t{4}},
                                            {"stem", std::int64_t{64}}})},
                    Case{"revnet"}, Case{"vgg8b"},
                    Case{"vgg8b", table({{"head_before_pool", false}})}));

}  // namespace sluice::layer_layout_test
