// Residual networks for small images (He et al. 2015, arXiv:1512.03385, section
// 4.2): a 3x3 convolution, three stages of n residual blocks whose second and
// third halve the map and double the channels, a global average pool and a
// linear layer; 6n + 2 layers with weights. Shortcuts are the paper's option A,
// without parameters: where the shape changes, every second pixel of every
// second row, and zeros for the new channels. Weights of convolutions are
// normal with deviation sqrt(2 / fan out) (He et al. 2015, arXiv:1502.01852).
// Entries of the list: the first convolution, each residual block, the rest.
#include <memory>
#include <utility>

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "lib/base/error.h"
#include "lib/tensors/pooling.h"
#include "modules/conv_stem.h"
#include "modules/model_builder.h"
#include "modules/models.h"
#include "modules/normal_weights.h"

namespace sluice {
namespace {

using at::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;

/// [N, inputs, H, W] -> [N, outputs, H', W'], H' = ceil(H / stride).
class ResidualBlock final : public Layer {
 public:
  ResidualBlock(std::int64_t inputs, std::int64_t outputs, std::int64_t stride)
      : new_channels_(outputs - inputs),
        stride_(stride),
        conv1_(plain_conv(inputs, outputs, 3, stride)),
        norm1_(outputs),
        conv2_(plain_conv(outputs, outputs, 3)),
        norm2_(outputs) {
    register_module("conv1", conv1_);
    register_module("norm1", norm1_);
    register_module("conv2", conv2_);
    register_module("norm2", norm2_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_out_deviation);
  }

  // Works in place only where the tensor is a fresh one of this block's own.
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    const Tensor& x = inputs.front();
    const Tensor inner = norm1_(conv1_(x)).relu_();
    return {(norm2_(conv2_(inner)) + shortcut(x)).relu_()};
  }

 private:
  Tensor shortcut(const Tensor& x) const {
    if (stride_ == 1 && new_channels_ == 0) return x;
    return at::constant_pad_nd(subsample(x, stride_),
                               {0, 0, 0, 0, 0, new_channels_});
  }

  std::int64_t new_channels_;
  std::int64_t stride_;
  Conv2d conv1_;
  BatchNorm2d norm1_;
  Conv2d conv2_;
  BatchNorm2d norm2_;
};

struct ResNetOptions {
  std::int64_t depth = 20;
  std::int64_t width = 16;

  void describe(Fields& fields) {
    fields.key("depth", depth,
               {.text = "layers with weights, 6n + 2: 20, 32, 44, 56, 110 in "
                        "the paper",
                .min = 8,
                .max = 1202});
    if (depth % 6 != 2) {
      fields.reject("depth", fmt::format("{} is not 6n + 2; the nearest are {} "
                                         "and {}",
                                         depth, (depth - 2) / 6 * 6 + 2,
                                         (depth - 2) / 6 * 6 + 8));
    }
    describe_width(fields);
  }

  void describe_width(Fields& fields) {
    fields.key(
        "width", width,
        {.text = "channels of the first stage; the second has twice, the "
                 "third four times as many",
         .min = 1});
  }
};

double elements(const SampleShape& shape) {
  return static_cast<double>(shape[0] * shape[1] * shape[2]);
}

LayerSpec residual_block(const SampleShape& input, std::int64_t outputs,
                         std::int64_t stride) {
  const std::int64_t inputs = input[0];
  const SampleShape output = {outputs, (input[1] - 1) / stride + 1,
                              (input[2] - 1) / stride + 1};
  const double weights = static_cast<double>(9 * (inputs + outputs));
  return {.name = fmt::format("residual block {}->{}{}", inputs, outputs,
                              stride == 1 ? "" : ", stride 2"),
          .make =
              [=] {
                return std::make_shared<ResidualBlock>(inputs, outputs, stride);
              },
          // Operations beside the weights, for each output: two norms, two
          // nonlinearities and the sum.
          .flops = elements(output) * (weights + 7),
          .output = output,
          .for_input =
              [=](const SampleShape& other, std::int64_t other_stride) {
                return residual_block(other, outputs, other_stride);
              }};
}

Model make_resnet(const ResNetOptions& options, const SampleSpec& sample) {
  ModelBuilder builder(sample);
  if (builder.shape().size() != 3) {
    throw UserError("resnet takes images of shape [C, H, W], not [{}]",
                    fmt::join(sample.shape, ", "));
  }
  builder.layer(conv_stem(builder.shape(), options.width));
  for (const std::int64_t stage : {0, 1, 2}) {
    for (std::int64_t i = 0; i < (options.depth - 2) / 6; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      builder.layer(
          residual_block(builder.shape(), options.width << stage, stride));
    }
  }
  return builder.entry().global_average_pool().linear(sample.classes).finish();
}

MakeModel maker(const ResNetOptions& options) {
  return [options](const SampleSpec& sample) {
    return make_resnet(options, sample);
  };
}

MakeModel of_depth(std::int64_t depth, Fields& fields) {
  ResNetOptions options;
  options.depth = depth;
  options.describe_width(fields);
  return maker(options);
}

}  // namespace

MakeModel resnet(Fields& fields) {
  ResNetOptions options;
  options.describe(fields);
  return maker(options);
}

MakeModel resnet20(Fields& fields) {
  return of_depth(20, fields);
}
MakeModel resnet32(Fields& fields) {
  return of_depth(32, fields);
}
MakeModel resnet56(Fields& fields) {
  return of_depth(56, fields);
}
MakeModel resnet110(Fields& fields) {
  return of_depth(110, fields);
}

}  // namespace sluice
