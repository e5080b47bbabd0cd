// MLP-Mixer (Tolstikhin et al. 2021, arXiv:2105.01601): a linear map of square
// patches, then layers of two MLPs behind a norm each, of which the first mixes
// places, for each channel alike, and the second channels, for each place
// alike; a last norm, the mean of the tokens and a linear layer. Entries of the
// list: the patches, each layer, the rest. Weights are normal with deviation
// sqrt(1 / fan in), as in the authors' code, biases 0; unlike there the last
// layer doesn't begin at zero.
#include <memory>

#include <ATen/ops/gelu.h>
#include <fmt/format.h>

#include "lib/blocks/fused_linear.h"
#include "modules/chain.h"
#include "modules/models.h"
#include "modules/tokens.h"

namespace sluice {
namespace {

using at::Tensor;

struct MixerOptions {
  std::int64_t patch = 4;
  std::int64_t layers = 6;
  std::int64_t width = 128;
  std::int64_t token_hidden = 64;
  std::int64_t channel_hidden = 512;
  double dropout = 0;

  void describe(Fields& fields) {
    fields.key("patch", patch,
               {.text = "height and width of a patch, a divisor of the image's",
                .unit = "pixels",
                .min = 1});
    fields.key("layers", layers, {.text = "Mixer layers", .min = 1});
    fields.key("width", width, {.text = "width of a token", .min = 1});
    fields.key("token_hidden", token_hidden,
               {.text = "width of the MLP that mixes places; half of width in "
                        "the paper",
                .min = 1});
    fields.key(
        "channel_hidden", channel_hidden,
        {.text = "width of the MLP that mixes channels; four times width "
                 "in the paper",
         .min = 1});
    fields.key("dropout", dropout,
               {.text = "probability of dropping an element of what each MLP "
                        "adds",
                .min = 0,
                .max = 0.99});
  }
};

constexpr double kMixerEpsilon = 1e-6;

class MixerPatches final : public Layer {
 public:
  MixerPatches(const PatchGrid& grid, std::int64_t width)
      : patches_(patch_projection(grid, width)) {
    register_module("patches", patches_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_in_deviation);
  }

  /// [N, C, H, W] -> [N, T, width].
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {tokens_of(patches_(inputs.front()))};
  }

 private:
  torch::nn::Conv2d patches_;
};

/// An MLP over the last dimension.
std::shared_ptr<Chain> mixer_mlp(std::int64_t width, std::int64_t hidden,
                                 double dropout) {
  auto chain = std::make_shared<Chain>();
  chain->add("hidden", FusedLinear(width, hidden));
  chain->add([](const Tensor& x) { return at::gelu(x); });
  chain->add("projection", FusedLinear(hidden, width));
  chain->add("dropout", std::make_shared<Dropout>(dropout));
  return chain;
}

/// [N, T, C] -> [N, T, C].
class MixerLayer final : public Layer {
 public:
  MixerLayer(const MixerOptions& options, std::int64_t places)
      : norm1_(norm_of(options)),
        tokens_(mixer_mlp(places, options.token_hidden, options.dropout)),
        norm2_(norm_of(options)),
        channels_(
            mixer_mlp(options.width, options.channel_hidden, options.dropout)) {
    register_module("norm1", norm1_);
    register_module("tokens", tokens_);
    register_module("norm2", norm2_);
    register_module("channels", channels_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, fan_in_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    const Tensor& x = inputs.front();
    const Tensor columns = norm1_->forward(x).transpose(1, 2);  // [N, C, T]
    const Tensor mixed =
        tokens_->forward({columns}, member_pass(pass, "tokens")).front();
    const Tensor h = x + mixed.transpose(1, 2);
    return {
        h +
        channels_->forward({norm2_->forward(h)}, member_pass(pass, "channels"))
            .front()};
  }

 private:
  static std::shared_ptr<LayerNorm> norm_of(const MixerOptions& options) {
    return std::make_shared<LayerNorm>(options.width, /*bias=*/true,
                                       kMixerEpsilon);
  }

  std::shared_ptr<LayerNorm> norm1_;
  std::shared_ptr<Chain> tokens_;
  std::shared_ptr<LayerNorm> norm2_;
  std::shared_ptr<Chain> channels_;
};

LayerSpec mixer_patches(const MixerOptions& options, const PatchGrid& grid) {
  return {.name = fmt::format("patches {}x{}, {} tokens of {}", grid.size,
                              grid.size, grid.count, options.width),
          .make =
              [grid, width = options.width] {
                return std::make_shared<MixerPatches>(grid, width);
              },
          .flops = patch_flops(grid, options.width),
          .output = {grid.count, options.width}};
}

LayerSpec mixer_layer(const MixerOptions& options, std::int64_t places) {
  const auto c = static_cast<double>(options.width);
  const auto t = static_cast<double>(places);
  const auto by_tokens = static_cast<double>(options.token_hidden);
  const auto by_channels = static_cast<double>(options.channel_hidden);
  const double products = 2 * c * t * (by_tokens + by_channels);
  // Operations beside the products: two norms, two sums, and the activations of
  // both MLPs.
  const double others = 6 * c * t + c * by_tokens + t * by_channels;
  return {.name = fmt::format("mixer {}, {} places", options.width, places),
          .make =
              [options, places] {
                return std::make_shared<MixerLayer>(options, places);
              },
          .flops = products + others,
          .output = {places, options.width}};
}

Model make_mixer(const MixerOptions& options, const SampleSpec& sample) {
  const PatchGrid grid = patch_grid(sample, options.patch, "mlp_mixer");
  Model model;
  model.sample = sample;
  model.layers.push_back(mixer_patches(options, grid));
  for (std::int64_t i = 0; i < options.layers; ++i)
    model.layers.push_back(mixer_layer(options, grid.count));
  model.layers.push_back(token_classifier({.width = options.width,
                                           .classes = sample.classes,
                                           .norm_epsilon = kMixerEpsilon},
                                          grid.count));
  return model;
}

}  // namespace

MakeModel mlp_mixer(Fields& fields) {
  MixerOptions options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_mixer(options, sample);
  };
}

}  // namespace sluice
