#include "modules/conv_stem.h"

#include <memory>

#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>

#include "modules/normal_weights.h"

namespace sluice {
namespace {

class ConvStem final : public Layer {
 public:
  ConvStem(std::int64_t inputs, std::int64_t channels)
      : conv_(plain_conv(inputs, channels, 3)), norm_(channels) {
    register_module("conv", conv_);
    register_module("norm", norm_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_out_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {norm_(conv_(inputs.front())).relu_()};
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
};

}  // namespace

torch::nn::Conv2d plain_conv(std::int64_t inputs, std::int64_t outputs,
                             std::int64_t size, std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, size)
                               .stride(stride)
                               .padding(size / 2)
                               .bias(false));
}

LayerSpec conv_stem(const SampleShape& image, std::int64_t channels) {
  const std::int64_t inputs = image[0];
  const SampleShape output = {channels, image[1], image[2]};
  const auto elements = static_cast<double>(channels * image[1] * image[2]);
  return {.name = fmt::format("conv {}->{} 3x3, norm", inputs, channels),
          .make = [=] { return std::make_shared<ConvStem>(inputs, channels); },
          // Operations for each output: the filter's weights, a norm and a
          // nonlinearity.
          .flops = elements * (static_cast<double>(9 * inputs) + 3),
          .output = output};
}

}  // namespace sluice
