#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <torch/nn/modules/conv.h>

#include "lib/blocks/fused_linear.h"
#include "lib/blocks/layer.h"
#include "modules/normal_weights.h"
#include "modules/transformer.h"

namespace sluice {

// Images as sequences of tokens [N, T, C], one for each square patch, row by
// row: what ViT and MLP-Mixer have in common.

/// How an image [channels, H, W] falls into patches of size x size pixels.
struct PatchGrid {
  std::int64_t channels = 0;
  std::int64_t size = 0;
  std::int64_t count = 0;  ///< T
};

/// Throws UserError, in the name of `model`, unless the samples are images that
/// such patches tile.
PatchGrid patch_grid(const SampleSpec& sample, std::int64_t size,
                     std::string_view model);

/// A linear map of each patch: a convolution whose windows don't overlap.
torch::nn::Conv2d patch_projection(const PatchGrid& grid, std::int64_t width);
/// Multiply-adds of the map from patches to tokens, for one image.
double patch_flops(const PatchGrid& grid, std::int64_t width);

/// What the convolution gives, as contiguous tokens: [N, C, H, W] ->
/// [N, H W, C].
at::Tensor tokens_of(const at::Tensor& maps);

/// Way in which a classifier reduces [N, T, C].
enum class TokenPooling : std::uint8_t { first, mean };

struct TokenClassifierOptions {
  std::int64_t width = 0;
  std::int64_t classes = 0;
  TokenPooling pooling = TokenPooling::mean;
  double norm_epsilon = 1e-6;
  Deviation deviation = fan_in_deviation;  ///< of the initial weights
};

/// The last entry of the list: a norm of each token, then the first of them or
/// their mean, and a linear layer: [N, T, C] -> logits [N, classes].
class TokenClassifier final : public Layer {
 public:
  explicit TokenClassifier(const TokenClassifierOptions& options);
  void initialise(std::uint64_t key) override;
  Tensors forward(const Tensors& inputs, const Pass& pass) override;

 private:
  TokenPooling pooling_;
  Deviation deviation_;
  std::shared_ptr<LayerNorm> norm_;
  FusedLinear linear_;
};

LayerSpec token_classifier(const TokenClassifierOptions& options,
                           std::int64_t places);

}  // namespace sluice
