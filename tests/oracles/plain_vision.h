#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/oracles/plain_models.h"

namespace sluice {

/// ResNet-18, 34 or 50 with a stem for 32, 64 or 224 pixels.
class PlainDeepResNet final : public PlainModel {
 public:
  struct Sizes {
    std::array<std::int64_t, 4> blocks;
    bool is_bottleneck;
    std::int64_t stem, width, channels, classes;
  };
  explicit PlainDeepResNet(const Sizes& sizes);
  at::Tensor forward(const at::Tensor& images) override;

 private:
  struct Residual {
    std::vector<torch::nn::Conv2d> convs;
    std::vector<torch::nn::BatchNorm2d> norms;
    torch::nn::Conv2d shortcut = nullptr;
    torch::nn::BatchNorm2d shortcut_norm = nullptr;
  };
  Residual residual(std::int64_t layer, std::int64_t in, std::int64_t width,
                    std::int64_t stride, bool is_bottleneck);

  bool pools_;
  torch::nn::Conv2d conv_ = nullptr;
  torch::nn::BatchNorm2d norm_ = nullptr;
  std::vector<Residual> residuals_;
  torch::nn::Linear linear_ = nullptr;
};

/// ViT without dropout. Attention is written out.
class PlainVit final : public PlainModel {
 public:
  struct Sizes {
    std::int64_t patch, layers, width, heads, channels, places, classes;
    bool class_token;
  };
  explicit PlainVit(const Sizes& sizes);
  at::Tensor forward(const at::Tensor& images) override;

 private:
  struct Layer {
    torch::nn::LayerNorm norm1, norm2;
    torch::nn::Linear qkv, attention_projection, hidden, projection;
  };
  at::Tensor attend(Layer& layer, const at::Tensor& x) const;

  Sizes sizes_;
  torch::nn::Conv2d patches_ = nullptr;
  at::Tensor position_, class_token_;
  std::vector<Layer> layers_;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear linear_ = nullptr;
};

/// MLP-Mixer without dropout.
class PlainMixer final : public PlainModel {
 public:
  struct Sizes {
    std::int64_t patch, layers, width, token_hidden, channel_hidden, channels,
        places, classes;
  };
  explicit PlainMixer(const Sizes& sizes);
  at::Tensor forward(const at::Tensor& images) override;

 private:
  struct Layer {
    torch::nn::LayerNorm norm1, norm2;
    torch::nn::Linear token_hidden, token_projection, channel_hidden,
        channel_projection;
  };

  torch::nn::Conv2d patches_ = nullptr;
  std::vector<Layer> layers_;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear linear_ = nullptr;
};

}  // namespace sluice
