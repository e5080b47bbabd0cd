#include "modules/transformer.h"

#include <cmath>

#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lib/blocks/fused_linear.h"
#include "modules/normal_weights.h"

namespace sluice {
namespace {

using at::Tensor;

std::shared_ptr<Chain> make_mlp(const TransformerOptions& options) {
  const auto linear = [&](std::int64_t inputs, std::int64_t outputs) {
    return FusedLinear(
        torch::nn::LinearOptions(inputs, outputs).bias(options.bias));
  };
  auto chain = std::make_shared<Chain>();
  chain->add("hidden", linear(options.width, 4 * options.width));
  chain->add([approximation = options.tanh_gelu ? "tanh" : "none"](
                 const Tensor& x) { return at::gelu(x, approximation); });
  chain->add("projection", linear(4 * options.width, options.width));
  chain->add("dropout", std::make_shared<Dropout>(options.dropout));
  return chain;
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t width, bool bias, double epsilon)
    : width_(width),
      epsilon_(epsilon),
      weight_(register_parameter("weight", at::ones({width}))) {
  if (bias) bias_ = register_parameter("bias", at::zeros({width}));
}

Tensor LayerNorm::forward(const Tensor& x) {
  return at::layer_norm(x, {width_}, weight_, bias_, epsilon_);
}

void check_heads(const TransformerOptions& options, const Fields& fields) {
  if (options.width % options.heads == 0) return;
  fields.reject("width", fmt::format("{} is no multiple of heads = {}",
                                     options.width, options.heads));
}

double transformer_flops(std::int64_t places, std::int64_t width) {
  const auto t = static_cast<double>(places);
  const auto c = static_cast<double>(width);
  const double products = 12 * c * c + 2 * t * c;
  const double others = 2 * 2 * c + 4 * c + 2 * c;
  return t * (products + others);
}

TransformerLayer::TransformerLayer(const TransformerOptions& options,
                                   std::int64_t depth)
    : depth_(depth),
      norm1_(std::make_shared<LayerNorm>(options.width, options.bias,
                                         options.norm_epsilon)),
      attention_(std::make_shared<SelfAttention>(options)),
      norm2_(std::make_shared<LayerNorm>(options.width, options.bias,
                                         options.norm_epsilon)),
      mlp_(make_mlp(options)) {
  register_module("norm1", norm1_);
  register_module("attention", attention_);
  register_module("norm2", norm2_);
  register_module("mlp", mlp_);
}

Tensors TransformerLayer::forward(const Tensors& inputs, const Pass& pass) {
  Tensors values = inputs;
  Tensor& h = values.front();  // [N, T, C]
  h = h +
      attention_->forward({norm1_->forward(h)}, member_pass(pass, "attention"))
          .front();
  h = h + mlp_->forward({norm2_->forward(h)}, member_pass(pass, "mlp")).front();
  return values;
}

void TransformerLayer::initialise(std::uint64_t key) {
  initialise_normal(*this, key, [this](std::string_view name, const Tensor&) {
    const bool is_residual = depth_ > 0 && name.ends_with("projection.weight");
    return is_residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(depth_))
                       : 0.02;
  });
}

}  // namespace sluice
