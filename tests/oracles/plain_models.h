#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ops/linear.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "lib/boundaries/boundary.h"

namespace sluice {

/// A linear layer with its bias added by LibTorch's fused kernel, as Python's
/// torch.nn.Linear does: the C++ one adds it in a pass of its own.
inline at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

/// Oracles: networks of LibTorch's own modules, written without anything of
/// Sluice and never cut. Their parameters have Sluice's names.
class PlainModel : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;

  NamedTensors named() const;
  /// Copies what has the same name. Throws unless the names are the same.
  void take_weights(const NamedTensors& weights);

 protected:
  PlainModel() = default;

  /// Registers the module as "layers.<layer>.<name>".
  template <class Holder>
  Holder add(std::int64_t layer, const std::string& name, Holder module) {
    entry(layer, name).register_module(last_part(name), module);
    return module;
  }

  /// Registers it as "layers.<layer>.<name>".
  at::Tensor add_parameter(std::int64_t layer, const std::string& name,
                           const at::Tensor& value) {
    return entry(layer, name).register_parameter(name, value);
  }

 private:
  torch::nn::Module& entry(std::int64_t layer, const std::string& name);
  static std::string last_part(const std::string& name);
};

class PlainResNet final : public PlainModel {
 public:
  PlainResNet(std::int64_t depth, std::int64_t width, std::int64_t channels,
              std::int64_t classes);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  struct Residual {
    std::int64_t stride;
    torch::nn::Conv2d conv1, conv2;
    torch::nn::BatchNorm2d norm1, norm2;
  };
  torch::nn::Conv2d conv_ = nullptr;
  torch::nn::BatchNorm2d norm_ = nullptr;
  std::vector<Residual> residuals_;
  torch::nn::Linear linear_ = nullptr;
};

/// With biases, GELU by tanh and no dropout.
class PlainGpt final : public PlainModel {
 public:
  struct Sizes {
    std::int64_t layers, width, heads, context, vocabulary;
    bool tied;
  };
  explicit PlainGpt(const Sizes& sizes);
  at::Tensor forward(const at::Tensor& tokens) override;

 private:
  struct Layer {
    torch::nn::LayerNorm norm1, norm2;
    torch::nn::Linear qkv, attention_projection, hidden, projection;
  };
  at::Tensor attend(Layer& layer, const at::Tensor& x) const;

  Sizes sizes_;
  torch::nn::Embedding token_ = nullptr;
  torch::nn::Embedding position_ = nullptr;
  std::vector<Layer> layers_;
  torch::nn::LayerNorm norm_ = nullptr;
  torch::nn::Linear vocabulary_ = nullptr;
};

}  // namespace sluice
