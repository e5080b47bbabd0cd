// Residual networks of 18, 34 and 50 layers (He et al. 2016, CVPR,
// arXiv:1512.03385, table 1): a stem, four stages of residual blocks of which
// all but the first halve the map and double the channels, a global average
// pool and a linear layer. A block of ResNet-50 is a bottleneck, 1x1, 3x3 and
// 1x1, whose stride is that of the 3x3, as in torchvision (the paper's is that
// of the first 1x1). Shortcuts are the paper's option B: a 1x1 convolution and
// a norm where the shape changes. Convolutions begin as in resnet.cpp, the last
// layer as LibTorch's. Parameters have the order of torchvision's.
//
// The paper's stem, a 7x7 convolution of stride 2 and a max pool, is for 224
// pixels. For 32 there is one 3x3 convolution, as is usual on CIFAR, and for 64
// the same with the pool: the first stage sees 56, 32 or 32 pixels.
//
// Entries of the list: the stem, each residual block, the rest.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <ATen/ops/max_pool2d.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "lib/base/error.h"
#include "modules/model_builder.h"
#include "modules/models.h"
#include "modules/normal_weights.h"

namespace sluice {
namespace {

using at::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;

constexpr std::int64_t kExpansion = 4;  // of a bottleneck

struct DeepResNet {
  std::string_view name;
  std::array<std::int64_t, 4> blocks;  ///< of each stage
  bool is_bottleneck = false;
};

constexpr DeepResNet kResNet18 = {"resnet18", {2, 2, 2, 2}};
constexpr DeepResNet kResNet34 = {"resnet34", {3, 4, 6, 3}};
constexpr DeepResNet kResNet50 = {"resnet50", {3, 4, 6, 3}, true};

struct DeepOptions {
  std::int64_t stem = 0;
  std::int64_t width = 64;
  bool zero_init = false;

  void describe(Fields& fields) {
    fields.key("stem", stem,
               {.text = "size of the images that the stem is made for: 32 (a "
                        "3x3 convolution), 64 (the same and a pool) or 224 (a "
                        "7x7 convolution of stride 2 and a pool); 0: the one "
                        "nearest to the data",
                .unit = "pixels",
                .min = 0});
    if (stem != 0 && stem != 32 && stem != 64 && stem != 224)
      fields.reject("stem", fmt::format("there is none for {} pixels; set 32, "
                                        "64, 224, or 0: by the data",
                                        stem));
    fields.key("width", width,
               {.text = "channels of the first stage's 3x3 convolutions; each "
                        "stage has twice as many as the one below",
                .min = 1});
    fields.key(
        "zero_init", zero_init,
        {.text = "whether the last norm of each residual block begins at "
                 "zero, and the block as its shortcut (Goyal et al. "
                 "2017, arXiv:1706.02677)"});
  }
};

/// A convolution without bias that keeps the map but for its stride.
Conv2d padded(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
              std::int64_t stride) {
  return Conv2d(torch::nn::Conv2dOptions(inputs, outputs, size)
                    .stride(stride)
                    .padding(size / 2)
                    .bias(false));
}

/// Extent that such a window, or the stem's pool, leaves of `extent` pixels.
std::int64_t strided(std::int64_t extent, std::int64_t stride) {
  return (extent - 1) / stride + 1;
}

SampleShape strided(const SampleShape& map, std::int64_t channels,
                    std::int64_t stride) {
  return {channels, strided(map[1], stride), strided(map[2], stride)};
}

double values_of_map(const SampleShape& map) {
  return static_cast<double>(map[0] * map[1] * map[2]);
}

/// Shape of a stem for images of one size.
struct StemShape {
  std::int64_t size = 3;  ///< of the convolution's window
  std::int64_t stride = 1;
  bool pools = false;
};

StemShape stem_for(std::int64_t pixels) {
  if (pixels == 224) return {.size = 7, .stride = 2, .pools = true};
  return {.size = 3, .stride = 1, .pools = pixels == 64};
}

/// Nearest stem of 32, 64 and 224 for the image's size.
std::int64_t nearest_stem(const SampleShape& image) {
  const std::int64_t pixels = std::min(image[1], image[2]);
  std::int64_t best = 32;
  for (const std::int64_t each : {64, 224})
    if (std::abs(each - pixels) < std::abs(best - pixels)) best = each;
  return best;
}

class DeepStem final : public Layer {
 public:
  DeepStem(std::int64_t inputs, std::int64_t channels, const StemShape& shape)
      : pools_(shape.pools),
        conv_(padded(inputs, channels, shape.size, shape.stride)),
        norm_(channels) {
    register_module("conv", conv_);
    register_module("norm", norm_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_out_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    const Tensor h = norm_(conv_(inputs.front())).relu_();
    return {pools_ ? at::max_pool2d(h, 3, /*stride=*/2, /*padding=*/1) : h};
  }

 private:
  bool pools_;
  Conv2d conv_;
  BatchNorm2d norm_;
};

/// A convolution of a residual block.
struct Convolution {
  std::int64_t outputs = 0;
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

/// Shape of a residual block.
struct BlockShape {
  std::int64_t inputs = 0;
  std::int64_t width = 0;  ///< of its 3x3 convolutions
  std::int64_t stride = 1;
  bool is_bottleneck = false;
  bool zero_init = false;

  std::int64_t outputs() const {
    return is_bottleneck ? kExpansion * width : width;
  }
  bool is_projected() const { return stride != 1 || inputs != outputs(); }
  std::vector<Convolution> convolutions() const {
    if (!is_bottleneck) return {{width, 3, stride}, {width, 3, 1}};
    return {{width, 1, 1}, {width, 3, stride}, {outputs(), 1, 1}};
  }
};

/// [N, inputs, H, W] -> [N, outputs, H', W'], H' = ceil(H / stride).
class DeepBlock final : public Layer {
 public:
  explicit DeepBlock(const BlockShape& shape)
      : begins_at_zero_(shape.zero_init) {
    std::int64_t inputs = shape.inputs;
    for (const Convolution& each : shape.convolutions()) {
      const std::size_t number = convs_.size() + 1;
      convs_.push_back(register_module(
          fmt::format("conv{}", number),
          padded(inputs, each.outputs, each.size, each.stride)));
      norms_.push_back(register_module(fmt::format("norm{}", number),
                                       BatchNorm2d(each.outputs)));
      inputs = each.outputs;
    }
    if (!shape.is_projected()) return;
    shortcut_ = register_module(
        "shortcut", padded(shape.inputs, shape.outputs(), 1, shape.stride));
    shortcut_norm_ =
        register_module("shortcut_norm", BatchNorm2d(shape.outputs()));
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_out_deviation);
    if (begins_at_zero_) norms_.back()->weight.detach().zero_();
  }

  // Works in place only where the tensor is a fresh one of this block's own.
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    const Tensor& x = inputs.front();
    Tensor h = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      h = norms_[i](convs_[i](h));
      if (i + 1 < convs_.size()) h.relu_();
    }
    return {(h + shortcut(x)).relu_()};
  }

 private:
  Tensor shortcut(const Tensor& x) {
    return shortcut_ ? shortcut_norm_(shortcut_(x)) : x;
  }

  bool begins_at_zero_;
  std::vector<Conv2d> convs_;
  std::vector<BatchNorm2d> norms_;
  Conv2d shortcut_ = nullptr;
  BatchNorm2d shortcut_norm_ = nullptr;
};

LayerSpec deep_stem(const SampleShape& image, std::int64_t channels,
                    const StemShape& shape) {
  const std::int64_t inputs = image[0];
  const SampleShape convolved = strided(image, channels, shape.stride);
  const double weights = static_cast<double>(inputs * shape.size * shape.size);
  // Operations for each output: its weights, a norm, a nonlinearity, and what a
  // pool reads.
  return {
      .name =
          fmt::format("conv {}->{} {}x{}, norm{}", inputs, channels, shape.size,
                      shape.size, shape.pools ? ", max pool" : ""),
      .make =
          [=] { return std::make_shared<DeepStem>(inputs, channels, shape); },
      .flops = values_of_map(convolved) * (weights + (shape.pools ? 4 : 3)),
      .output = shape.pools ? strided(convolved, channels, 2) : convolved};
}

/// Operations of a block: for each output of a convolution its weights and a
/// norm; the nonlinearities, and a sum at the end.
double deep_block_flops(const SampleShape& input, const BlockShape& shape) {
  double flops = 0;
  SampleShape map = input;
  for (const Convolution& each : shape.convolutions()) {
    const auto weights = static_cast<double>(map[0] * each.size * each.size);
    map = strided(map, each.outputs, each.stride);
    flops += values_of_map(map) * (weights + 3);
  }
  flops += values_of_map(map);
  if (shape.is_projected())
    flops += values_of_map(map) * (static_cast<double>(input[0]) + 2);
  return flops;
}

LayerSpec deep_block(const SampleShape& input, BlockShape shape) {
  shape.inputs = input[0];
  return {.name = fmt::format("{} block {}->{}{}",
                              shape.is_bottleneck ? "bottleneck" : "residual",
                              shape.inputs, shape.outputs(),
                              shape.stride == 1 ? "" : ", stride 2"),
          .make = [shape] { return std::make_shared<DeepBlock>(shape); },
          .flops = deep_block_flops(input, shape),
          .output = strided(input, shape.outputs(), shape.stride),
          .for_input =
              [shape](const SampleShape& other, std::int64_t stride) {
                BlockShape copy = shape;
                copy.stride = stride;
                return deep_block(other, copy);
              }};
}

Model make_deep_resnet(const DeepResNet& net, const DeepOptions& options,
                       const SampleSpec& sample) {
  ModelBuilder builder(sample);
  if (sample.shape.size() != 3) {
    throw UserError("{} takes images of shape [C, H, W], not [{}]", net.name,
                    fmt::join(sample.shape, ", "));
  }
  const std::int64_t pixels =
      options.stem > 0 ? options.stem : nearest_stem(sample.shape);
  builder.layer(deep_stem(sample.shape, options.width, stem_for(pixels)));
  for (std::size_t stage = 0; stage < net.blocks.size(); ++stage) {
    for (std::int64_t i = 0; i < net.blocks[stage]; ++i) {
      builder.layer(
          deep_block(builder.shape(), {.width = options.width << stage,
                                       .stride = stage > 0 && i == 0 ? 2 : 1,
                                       .is_bottleneck = net.is_bottleneck,
                                       .zero_init = options.zero_init}));
    }
  }
  return builder.entry().global_average_pool().linear(sample.classes).finish();
}

MakeModel deep_maker(const DeepResNet& net, Fields& fields) {
  DeepOptions options;
  options.describe(fields);
  return [net, options](const SampleSpec& sample) {
    return make_deep_resnet(net, options, sample);
  };
}

}  // namespace

MakeModel resnet18(Fields& fields) {
  return deep_maker(kResNet18, fields);
}
MakeModel resnet34(Fields& fields) {
  return deep_maker(kResNet34, fields);
}
MakeModel resnet50(Fields& fields) {
  return deep_maker(kResNet50, fields);
}

}  // namespace sluice
