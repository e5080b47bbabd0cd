#include "tests/oracles/plain_models.h"

#include <stdexcept>

#include <ATen/ATen.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/padding.h>

namespace sluice {

using at::Tensor;
namespace nn = torch::nn;

NamedTensors PlainModel::named() const {
  NamedTensors all;
  for (const auto& item : named_parameters())
    all.emplace_back(item.key(), item.value());
  return all;
}

void PlainModel::take_weights(const NamedTensors& weights) {
  const at::NoGradGuard no_grad;
  auto own = named_parameters();
  if (own.size() != weights.size())
    throw std::runtime_error("the oracle has other parameters");
  for (const auto& [name, weight] : weights) own[name].copy_(weight);
}

nn::Module& PlainModel::entry(std::int64_t layer, const std::string& name) {
  nn::Module* at = this;
  const auto go = [&](const std::string& part) {
    for (const auto& child : at->named_children()) {
      if (child.key() != part) continue;
      at = child.value().get();
      return;
    }
    at = at->register_module(part, std::make_shared<nn::Module>()).get();
  };
  go("layers");
  go(std::to_string(layer));
  if (const std::size_t dot = name.find('.'); dot != name.npos)
    go(name.substr(0, dot));
  return *at;
}

std::string PlainModel::last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

PlainResNet::PlainResNet(std::int64_t depth, std::int64_t width,
                         std::int64_t channels, std::int64_t classes) {
  const auto conv3x3 = [](std::int64_t in, std::int64_t out,
                          std::int64_t stride) {
    return nn::Conv2d(
        nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
  };
  conv_ = add(0, "conv", conv3x3(channels, width, 1));
  norm_ = add(0, "norm", nn::BatchNorm2d(width));
  std::int64_t layer = 1;
  std::int64_t in = width;
  for (std::int64_t out = width; out <= 4 * width; out *= 2) {
    for (std::int64_t i = 0; i < (depth - 2) / 6; ++i) {
      const std::int64_t stride = in == out ? 1 : 2;
      residuals_.push_back({stride,
                            add(layer, "conv1", conv3x3(in, out, stride)),
                            add(layer, "conv2", conv3x3(out, out, 1)),
                            add(layer, "norm1", nn::BatchNorm2d(out)),
                            add(layer, "norm2", nn::BatchNorm2d(out))});
      in = out;
      ++layer;
    }
  }
  linear_ = add(layer, "linear", nn::Linear(in, classes));
}

Tensor PlainResNet::forward(const Tensor& images) {
  using at::indexing::None, at::indexing::Slice;
  Tensor x = norm_(conv_(images)).relu();
  for (Residual& block : residuals_) {
    Tensor shortcut = x;
    if (block.stride == 2) {
      shortcut = x.index(
          {Slice(), Slice(), Slice(None, None, 2), Slice(None, None, 2)});
      shortcut = at::cat({shortcut, at::zeros_like(shortcut)}, 1);
    }
    x = block.norm1(block.conv1(x)).relu();
    x = (block.norm2(block.conv2(x)) + shortcut).relu();
  }
  return linear_(x.mean({2, 3}));
}

PlainGpt::PlainGpt(const Sizes& sizes) : sizes_(sizes) {
  const std::int64_t width = sizes.width;
  const auto norm = [&] {
    return nn::LayerNorm(nn::LayerNormOptions({width}));
  };
  token_ = add(0, "token", nn::Embedding(sizes.vocabulary, width));
  position_ = add(0, "position", nn::Embedding(sizes.context, width));
  for (std::int64_t i = 1; i <= sizes.layers; ++i) {
    layers_.push_back({add(i, "norm1", norm()), add(i, "norm2", norm()),
                       add(i, "attention.qkv", nn::Linear(width, 3 * width)),
                       add(i, "attention.projection", nn::Linear(width, width)),
                       add(i, "mlp.hidden", nn::Linear(width, 4 * width)),
                       add(i, "mlp.projection", nn::Linear(4 * width, width))});
  }
  norm_ = add(sizes.layers + 1, "norm", norm());
  if (sizes.tied) return;
  vocabulary_ =
      add(sizes.layers + 1, "vocabulary",
          nn::Linear(nn::LinearOptions(width, sizes.vocabulary).bias(false)));
}

Tensor PlainGpt::attend(Layer& layer, const Tensor& x) const {
  const auto split = [&](const Tensor& part) {  // -> [N, heads, T, d]
    return part.view({x.size(0), x.size(1), sizes_.heads, -1}).transpose(1, 2);
  };
  const std::vector<Tensor> parts = linear(layer.qkv, x).chunk(3, -1);
  const Tensor mixed = at::scaled_dot_product_attention(
      split(parts[0]), split(parts[1]), split(parts[2]), {}, 0.0, true);
  return linear(layer.attention_projection,
                mixed.transpose(1, 2).contiguous().view(x.sizes()));
}

Tensor PlainGpt::forward(const Tensor& tokens) {
  const Tensor places = at::arange(tokens.size(1), at::kLong);
  Tensor x = token_(tokens) + position_(places);
  for (Layer& layer : layers_) {
    x = x + attend(layer, layer.norm1(x));
    const Tensor hidden = nn::functional::gelu(
        linear(layer.hidden, layer.norm2(x)),
        nn::functional::GELUFuncOptions().approximate("tanh"));
    x = x + linear(layer.projection, hidden);
  }
  x = norm_(x);
  return sizes_.tied ? at::linear(x, token_->weight) : linear(vocabulary_, x);
}

}  // namespace sluice
