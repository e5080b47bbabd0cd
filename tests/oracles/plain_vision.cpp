#include "tests/oracles/plain_vision.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <torch/nn/functional/activation.h>

namespace sluice {

using at::Tensor;
namespace nn = torch::nn;

PlainDeepResNet::Residual PlainDeepResNet::residual(std::int64_t layer,
                                                    std::int64_t in,
                                                    std::int64_t width,
                                                    std::int64_t stride,
                                                    bool is_bottleneck) {
  Residual made;
  const auto conv = [&](std::int64_t from, std::int64_t to, std::int64_t size,
                        std::int64_t step) {
    const std::string number = std::to_string(made.convs.size() + 1);
    made.convs.push_back(add(layer, "conv" + number,
                             nn::Conv2d(nn::Conv2dOptions(from, to, size)
                                            .stride(step)
                                            .padding(size == 3 ? 1 : 0)
                                            .bias(false))));
    made.norms.push_back(add(layer, "norm" + number, nn::BatchNorm2d(to)));
  };
  std::int64_t out = width;
  if (is_bottleneck) {
    out = 4 * width;
    conv(in, width, 1, 1);
    conv(width, width, 3, stride);
    conv(width, out, 1, 1);
  } else {
    conv(in, width, 3, stride);
    conv(width, width, 3, 1);
  }
  if (in != out || stride != 1) {
    made.shortcut = add(
        layer, "shortcut",
        nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)));
    made.shortcut_norm = add(layer, "shortcut_norm", nn::BatchNorm2d(out));
  }
  return made;
}

PlainDeepResNet::PlainDeepResNet(const Sizes& sizes)
    : pools_(sizes.stem != 32) {
  const bool is_large = sizes.stem == 224;
  conv_ = add(0, "conv",
              nn::Conv2d(nn::Conv2dOptions(sizes.channels, sizes.width,
                                           is_large ? 7 : 3)
                             .stride(is_large ? 2 : 1)
                             .padding(is_large ? 3 : 1)
                             .bias(false)));
  norm_ = add(0, "norm", nn::BatchNorm2d(sizes.width));
  std::int64_t layer = 1;
  std::int64_t in = sizes.width;
  std::int64_t width = sizes.width;
  for (const std::int64_t count : sizes.blocks) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t stride = i == 0 && width != sizes.width ? 2 : 1;
      residuals_.push_back(
          residual(layer++, in, width, stride, sizes.is_bottleneck));
      in = sizes.is_bottleneck ? 4 * width : width;
    }
    width *= 2;
  }
  linear_ = add(layer, "linear", nn::Linear(in, sizes.classes));
}

Tensor PlainDeepResNet::forward(const Tensor& images) {
  Tensor x = norm_(conv_(images)).relu();
  if (pools_) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
  for (Residual& block : residuals_) {
    Tensor h = x;
    for (std::size_t i = 0; i < block.convs.size(); ++i) {
      if (i > 0) h = h.relu();
      h = block.norms[i](block.convs[i](h));
    }
    const Tensor shortcut =
        block.shortcut ? block.shortcut_norm(block.shortcut(x)) : x;
    x = (h + shortcut).relu();
  }
  return linear_(x.mean({2, 3}));
}

PlainVit::PlainVit(const Sizes& sizes) : sizes_(sizes) {
  const std::int64_t width = sizes.width;
  const auto norm = [&] {
    return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6));
  };
  patches_ =
      add(0, "patches",
          nn::Conv2d(nn::Conv2dOptions(sizes.channels, width, sizes.patch)
                         .stride(sizes.patch)));
  position_ = add_parameter(0, "position", at::zeros({sizes.places, width}));
  if (sizes.class_token)
    class_token_ = add_parameter(0, "class_token", at::zeros({1, width}));
  for (std::int64_t i = 1; i <= sizes.layers; ++i) {
    layers_.push_back({add(i, "norm1", norm()), add(i, "norm2", norm()),
                       add(i, "attention.qkv", nn::Linear(width, 3 * width)),
                       add(i, "attention.projection", nn::Linear(width, width)),
                       add(i, "mlp.hidden", nn::Linear(width, 4 * width)),
                       add(i, "mlp.projection", nn::Linear(4 * width, width))});
  }
  norm_ = add(sizes.layers + 1, "norm", norm());
  linear_ = add(sizes.layers + 1, "linear", nn::Linear(width, sizes.classes));
}

Tensor PlainVit::attend(Layer& layer, const Tensor& x) const {
  const std::int64_t d = sizes_.width / sizes_.heads;
  const Tensor all = linear(layer.qkv, x);  // [N, T, 3 C]
  std::vector<Tensor> mixed;
  for (std::int64_t head = 0; head < sizes_.heads; ++head) {
    const auto part = [&](std::int64_t which) {
      return all.narrow(2, which * sizes_.width + head * d, d);
    };
    const Tensor weights = at::matmul(part(0), part(1).transpose(1, 2))
                               .div(std::sqrt(static_cast<double>(d)))
                               .softmax(-1);
    mixed.push_back(at::matmul(weights, part(2)));
  }
  return linear(layer.attention_projection, at::cat(mixed, 2));
}

Tensor PlainVit::forward(const Tensor& images) {
  Tensor x = patches_(images).flatten(2).transpose(1, 2);
  if (sizes_.class_token)
    x = at::cat({class_token_.unsqueeze(0).repeat({x.size(0), 1, 1}), x}, 1);
  x = x + position_;
  for (Layer& layer : layers_) {
    x = x + attend(layer, layer.norm1(x));
    x = x + linear(layer.projection,
                   nn::functional::gelu(linear(layer.hidden, layer.norm2(x))));
  }
  x = norm_(x);
  return linear_(sizes_.class_token ? x.select(1, 0) : x.mean(1));
}

PlainMixer::PlainMixer(const Sizes& sizes) {
  const std::int64_t width = sizes.width;
  const auto norm = [&] {
    return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6));
  };
  patches_ =
      add(0, "patches",
          nn::Conv2d(nn::Conv2dOptions(sizes.channels, width, sizes.patch)
                         .stride(sizes.patch)));
  for (std::int64_t i = 1; i <= sizes.layers; ++i) {
    layers_.push_back(
        {add(i, "norm1", norm()), add(i, "norm2", norm()),
         add(i, "tokens.hidden", nn::Linear(sizes.places, sizes.token_hidden)),
         add(i, "tokens.projection",
             nn::Linear(sizes.token_hidden, sizes.places)),
         add(i, "channels.hidden", nn::Linear(width, sizes.channel_hidden)),
         add(i, "channels.projection",
             nn::Linear(sizes.channel_hidden, width))});
  }
  norm_ = add(sizes.layers + 1, "norm", norm());
  linear_ = add(sizes.layers + 1, "linear", nn::Linear(width, sizes.classes));
}

Tensor PlainMixer::forward(const Tensor& images) {
  Tensor x = patches_(images).flatten(2).transpose(1, 2);
  for (Layer& layer : layers_) {
    const Tensor columns = layer.norm1(x).transpose(1, 2);
    x = x + linear(layer.token_projection,
                   nn::functional::gelu(linear(layer.token_hidden, columns)))
                .transpose(1, 2);
    x = x + linear(layer.channel_projection,
                   nn::functional::gelu(
                       linear(layer.channel_hidden, layer.norm2(x))));
  }
  return linear_(norm_(x).mean(1));
}

}  // namespace sluice
