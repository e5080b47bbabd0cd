// Reversible residual networks (Gomez et al. 2017, NeurIPS, arXiv:1707.04585)
// in the form of PETRA (Rivaud et al. 2025, ICLR, arXiv:2406.02052): the
// channels of a map are two streams of which a block changes one and swaps
// both,
//
//   (x1, x2) -> (x2, x1 + F(x2)),   and back: x2 = y1, x1 = y2 - F(y1),
//
// F being the two 3x3 convolutions of a residual block with their norms. Each
// stage but the first begins with a residual block without an inverse, which
// halves the map and doubles the channels (shortcut: a 1x1 convolution and a
// norm). Before them a 3x3 convolution, a norm and a ReLU; behind them a ReLU,
// a global average pool and a linear layer. Convolutions begin as in
// resnet.cpp.
//
// Entries of the list: the first convolution, each block, the rest.
#include <memory>
#include <vector>

#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "lib/base/error.h"
#include "modules/conv_stem.h"
#include "modules/model_builder.h"
#include "modules/models.h"
#include "modules/normal_weights.h"

namespace sluice {
namespace {

struct RevNetOptions {
  std::int64_t width = 32;
  std::vector<std::int64_t> blocks = {2, 2, 2};

  void describe(Fields& fields) {
    fields.key("width", width,
               {.text = "channels of the first stage, half of them in each of "
                        "the two streams; each stage has twice as many as the "
                        "one below",
                .min = 2});
    if (width % 2 != 0)
      fields.reject("width", "two streams have an even number of channels");
    fields.key("blocks", blocks,
               {.text = "number of reversible blocks of each stage",
                .unit = "blocks",
                .min = 1});
    if (blocks.empty()) fields.reject("blocks", "there is no stage");
  }
};

/// A branch of two 3x3 convolutions, each with a norm, and a ReLU between them.
class RevNetBranch {
 public:
  RevNetBranch(torch::nn::Module& owner, std::int64_t inputs,
               std::int64_t outputs, std::int64_t stride)
      : conv1_(plain_conv(inputs, outputs, 3, stride)),
        norm1_(outputs),
        conv2_(plain_conv(outputs, outputs, 3)),
        norm2_(outputs) {
    owner.register_module("conv1", conv1_);
    owner.register_module("norm1", norm1_);
    owner.register_module("conv2", conv2_);
    owner.register_module("norm2", norm2_);
  }

  at::Tensor operator()(const at::Tensor& x) {
    return norm2_(conv2_(norm1_(conv1_(x)).relu_()));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
};

/// [N, C, H, W] -> [N, C, H, W], C even: (x1, x2) -> (x2, x1 + F(x2)).
class ReversibleBlock final : public Layer {
 public:
  explicit ReversibleBlock(std::int64_t channels)
      : half_(channels / 2), branch_(*this, half_, half_, 1) {}

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_out_deviation);
  }

  // A split's gradient is laid in memory as its parts' are, a slice's is not.
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    const Tensors x = inputs.front().split(half_, 1);
    return {at::cat({x[1], x[0] + branch_(x[1])}, 1)};
  }

  bool is_reversible() const override { return true; }

  Tensors inverse(const Tensors& outputs, const Pass& /*pass*/) override {
    const Tensors y = outputs.front().split(half_, 1);
    return {at::cat({y[1] - branch_(y[0]), y[0]}, 1)};
  }

 private:
  std::int64_t half_;
  RevNetBranch branch_;
};

/// [N, inputs, H, W] -> [N, outputs, H', W'], H' = ceil(H / 2).
class RevNetDownsampling final : public Layer {
 public:
  RevNetDownsampling(std::int64_t inputs, std::int64_t outputs)
      : branch_(*this, inputs, outputs, 2),
        shortcut_(plain_conv(inputs, outputs, 1, 2)),
        shortcut_norm_(outputs) {
    register_module("shortcut", shortcut_);
    register_module("shortcut_norm", shortcut_norm_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_out_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    const at::Tensor& x = inputs.front();
    return {branch_(x) + shortcut_norm_(shortcut_(x))};
  }

 private:
  RevNetBranch branch_;
  torch::nn::Conv2d shortcut_;
  torch::nn::BatchNorm2d shortcut_norm_;
};

double pixels_of(const SampleShape& map) {
  return static_cast<double>(map[1] * map[2]);
}

/// Operations of two 3x3 convolutions, their norms, a nonlinearity and a sum,
/// for each pixel of the output.
double branch_flops(std::int64_t inputs, std::int64_t outputs) {
  return static_cast<double>(outputs) *
         (9.0 * static_cast<double>(inputs + outputs) + 2 + 2 + 1 + 1);
}

LayerSpec reversible_block(const SampleShape& map) {
  const std::int64_t channels = map[0];
  return {.name = fmt::format("reversible block {}", channels),
          .make = [=] { return std::make_shared<ReversibleBlock>(channels); },
          .flops = pixels_of(map) * branch_flops(channels / 2, channels / 2),
          .output = map};
}

LayerSpec revnet_downsampling(const SampleShape& map) {
  const std::int64_t inputs = map[0];
  const std::int64_t outputs = 2 * inputs;
  const SampleShape output = {outputs, (map[1] + 1) / 2, (map[2] + 1) / 2};
  return {
      .name = fmt::format("residual block {}->{}, stride 2", inputs, outputs),
      .make =
          [=] { return std::make_shared<RevNetDownsampling>(inputs, outputs); },
      .flops = pixels_of(output) *
               (branch_flops(inputs, outputs) +
                static_cast<double>(outputs) * static_cast<double>(inputs + 2)),
      .output = output};
}

Model make_revnet(const RevNetOptions& options, const SampleSpec& sample) {
  ModelBuilder builder(sample);
  if (sample.shape.size() != 3)
    throw UserError("revnet takes images of shape [C, H, W], not [{}]",
                    fmt::join(sample.shape, ", "));
  builder.layer(conv_stem(sample.shape, options.width));
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage) {
    if (stage > 0) builder.layer(revnet_downsampling(builder.shape()));
    for (std::int64_t i = 0; i < options.blocks[stage]; ++i)
      builder.layer(reversible_block(builder.shape()));
  }
  return builder.entry()
      .activation(Activation::relu)
      .global_average_pool()
      .linear(sample.classes)
      .finish();
}

}  // namespace

MakeModel revnet(Fields& fields) {
  RevNetOptions options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_revnet(options, sample);
  };
}

}  // namespace sluice
