// A learned linear map at the cut: the block below ends with an encoder that
// makes `rank` channels of all, the block above begins with a decoder that
// makes all of them again. Both are layers of their blocks, so whatever trains
// a block trains its half: gradients from above, or the block's own loss. What
// crosses the boundary, up and down, is the code, and a head of the block below
// sees it too. Ramasinghe et al. 2025 (arXiv:2506.01260) send activations and
// gradients of transformers through a subspace of the width, which is fixed and
// to which they confine weights; here the map is learned and nothing confined.
//
// Channels are C of [C], of each place of [T, C], and of each pixel of
// [C, H, W]. The decoder has a bias, as features have means. At first the code
// is an orthogonal projection: rows of a cosine transform, chosen and signed by
// chance, and the decoder is the encoder's transpose.
//
// As many channels as there are need no layers, so none are added.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/table.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice {

BoundaryCodecs configure_low_rank(Fields& options, CodecWays ways);

namespace {

constexpr std::string_view kLowRank = "low_rank";
constexpr std::size_t kSizesOfMap = 3;  // dimensions of [C, H, W]

/// Place of the channels in the shape of a sample.
std::size_t channel_of(const SampleShape& shape) {
  return shape.size() == kSizesOfMap ? 0 : shape.size() - 1;
}

/// Channels of features, and of their code.
struct CodeShape {
  std::int64_t width = 1;
  std::int64_t rank = 1;
  bool is_map = false;
};

/// Orthonormal rows [rank, width], the same for the same key.
at::Tensor drawn_rows(const CodeShape& shape, std::uint64_t key) {
  KeyedRandom random(key);
  const auto width = static_cast<std::size_t>(shape.width);
  std::vector<double> signs(width);
  for (double& sign : signs) sign = random.below(2) == 0 ? -1 : 1;
  std::vector<std::size_t> waves(width);
  for (std::size_t i = 0; i < width; ++i) waves[i] = i;
  std::vector<float> rows;
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rank); ++row) {
    std::swap(waves[row], waves[row + random.below(width - row)]);
    const double length =
        std::sqrt((waves[row] == 0 ? 1.0 : 2.0) / static_cast<double>(width));
    for (std::size_t i = 0; i < width; ++i) {
      const double turn = (static_cast<double>(i) + 0.5) *
                          static_cast<double>(waves[row]) /
                          static_cast<double>(width);
      rows.push_back(static_cast<float>(signs[i] * length *
                                        std::cos(std::numbers::pi * turn)));
    }
  }
  return at::tensor(rows).view({shape.rank, shape.width});
}

/// A linear map of channels.
class ChannelMap : public torch::nn::Module {
 public:
  ChannelMap(std::int64_t inputs, std::int64_t outputs, bool has_bias,
             bool is_map)
      : is_map_(is_map) {
    weight_ = register_parameter("weight", at::zeros({outputs, inputs}));
    if (has_bias) bias_ = register_parameter("bias", at::zeros({outputs}));
  }

  /// [N, C], [N, T, C], or [N, C, H, W] of a map.
  at::Tensor forward(const at::Tensor& x) {
    if (!is_map_) return at::linear(x, weight_, bias_);
    return at::conv2d(x, weight_.unsqueeze(-1).unsqueeze(-1), bias_);
  }

  void set(const at::Tensor& weight) {
    const at::NoGradGuard no_grad;
    weight_.copy_(weight);
    if (bias_.defined()) bias_.zero_();
  }

 private:
  bool is_map_;
  at::Tensor weight_;
  at::Tensor bias_;
};

const at::Tensor& the_only(const Tensors& tensors) {
  if (tensors.size() != 1)
    throw UserError(
        "codec '{}' makes fewer channels of one tensor, and {} cross the "
        "boundary: cut elsewhere, or choose another codec",
        kLowRank, tensors.size());
  return tensors.front();
}

enum class CutHalf : std::uint8_t { encoder, decoder };

std::shared_ptr<ChannelMap> map_of(CutHalf half, const CodeShape& shape) {
  if (half == CutHalf::encoder)
    return std::make_shared<ChannelMap>(shape.width, shape.rank,
                                        /*has_bias=*/false, shape.is_map);
  return std::make_shared<ChannelMap>(shape.rank, shape.width,
                                      /*has_bias=*/true, shape.is_map);
}

/// Another layer with one half of a codec, behind it or before it, and with the
/// names that the layer's tensors have without it.
class LayerAtCut final : public Layer {
 public:
  LayerAtCut(std::shared_ptr<Layer> layer, CutHalf half, const CodeShape& shape,
             std::uint64_t key)
      : layer_(std::move(layer)),
        map_(map_of(half, shape)),
        half_(half),
        shape_(shape),
        key_(key) {
    for (const auto& item : layer_->named_parameters(/*recurse=*/false))
      register_parameter(item.key(), item.value(),
                         item.value().requires_grad());
    for (const auto& item : layer_->named_buffers(/*recurse=*/false))
      register_buffer(item.key(), item.value());
    for (const auto& item : layer_->named_children())
      register_module(item.key(), item.value());
    register_module(half == CutHalf::encoder ? "cut_encoder" : "cut_decoder",
                    map_);
  }

  void train(bool on = true) override {
    Layer::train(on);
    layer_->train(on);
  }

  void initialise(std::uint64_t key) override {
    layer_->initialise(key);
    const at::Tensor rows = drawn_rows(shape_, key_);
    map_->set(half_ == CutHalf::encoder ? rows : rows.t());
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    if (half_ == CutHalf::encoder)
      return {map_->forward(the_only(layer_->forward(inputs, pass)))};
    return layer_->forward({map_->forward(the_only(inputs))}, pass);
  }

 private:
  std::shared_ptr<Layer> layer_;
  std::shared_ptr<ChannelMap> map_;
  CutHalf half_;
  CodeShape shape_;
  std::uint64_t key_;
};

/// Multiply-adds of either half, for a sample.
double multiply_adds(const CodeShape& shape, const SampleShape& features) {
  double numbers = static_cast<double>(shape.rank);
  for (const std::int64_t size : features) numbers *= static_cast<double>(size);
  return numbers;
}

struct LowRankOptions {
  double ratio = 1.0 / 16;
  std::int64_t rank = 0;  // 0: by the ratio
  std::string code = "none";

  std::int64_t rank_of(std::int64_t width) const {
    constexpr double kRounding = 1e-9;  // of 0.07 * 100, for instance
    if (rank > width)
      throw UserError(
          "codec '{}': rank = {}, and the features at the boundary have {} "
          "channels: set at most {}",
          kLowRank, rank, width, width);
    return rank > 0 ? rank
                    : static_cast<std::int64_t>(std::ceil(
                          ratio * static_cast<double>(width) - kRounding));
  }
};

void add_layers(const LowRankOptions& options, LayerSpec& below,
                LayerSpec& above, std::uint64_t key) {
  const SampleShape features = below.output;
  const std::size_t channel = channel_of(features);
  const std::int64_t width = features.at(channel);
  const CodeShape shape{width, options.rank_of(width),
                        features.size() == kSizesOfMap};
  if (shape.rank == width) return;
  below.output[channel] = shape.rank;
  below.name += fmt::format(", {} channels encoded in {}", width, shape.rank);
  above.name += fmt::format(", {} channels of {}", width, shape.rank);
  for (LayerSpec* layer : {&below, &above})
    layer->flops += multiply_adds(shape, features);
  const auto with_half = [&](LayerSpec& layer, CutHalf half) {
    layer.make = [make = layer.make, half, shape, key] {
      return std::make_shared<LayerAtCut>(make(), half, shape, key);
    };
  };
  with_half(below, CutHalf::encoder);
  with_half(above, CutHalf::decoder);
}

/// Names of the codecs that a code may have: those without options.
std::vector<std::string> codes() {
  std::vector<std::string> names;
  for (const CodecRow& row : codecs())
    if (row.make.plain != nullptr) names.emplace_back(row.name);
  return names;
}

}  // namespace

BoundaryCodecs configure_low_rank(Fields& options, CodecWays /*ways*/) {
  LowRankOptions read;
  options.key("ratio", read.ratio,
              {.text = "part of the channels that is sent, rounded up; 1: all, "
                       "without a map",
               .min = 1e-9,
               .max = 1});
  options.key("rank", read.rank,
              {.text = "channels that are sent; 0: as many as ratio says",
               .min = 0,
               .max = 1e9});
  options.key("code", read.code,
              {.text = "codec of these channels and of their gradients",
               .allowed = codes()});
  const std::shared_ptr<const Codec> code =
      find_row(codecs(), read.code, "codec").make();
  return {.up = code,
          .down = code,
          .add_layers = [read](LayerSpec& below, LayerSpec& above,
                               std::uint64_t key) {
            add_layers(read, below, above, key);
          }};
}

}  // namespace sluice
