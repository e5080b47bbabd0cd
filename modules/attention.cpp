#include "modules/attention.h"

#include <cmath>
#include <limits>

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include "modules/chain.h"

namespace sluice {
namespace {

using at::Tensor;

/// [N, T, C] -> [N, heads, T, d].
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads})
      .transpose(1, 2);
}

/// q, k: [N, heads, T, d] -> [N, heads, T, T]; each row adds up to 1.
Tensor attention_weights(const Tensor& q, const Tensor& k, bool is_causal) {
  const std::int64_t places = q.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  Tensor products = at::matmul(q * scale, k.transpose(2, 3));
  if (is_causal) {
    const Tensor later =
        at::ones({places, places}, q.options().dtype(at::kBool)).triu_(1);
    products.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return products.softmax(-1);
}

}  // namespace

SelfAttention::SelfAttention(const TransformerOptions& options)
    : heads_(options.heads),
      is_causal_(options.causal),
      dropout_probability_(options.dropout),
      qkv_(torch::nn::LinearOptions(options.width, 3 * options.width)
               .bias(options.bias)),
      projection_(torch::nn::LinearOptions(options.width, options.width)
                      .bias(options.bias)),
      weights_dropout_(std::make_shared<Dropout>(options.dropout)),
      dropout_(std::make_shared<Dropout>(options.dropout)) {
  register_module("qkv", qkv_);
  register_module("projection", projection_);
  register_module("weights_dropout", weights_dropout_);
  register_module("dropout", dropout_);
}

bool SelfAttention::drops(const Pass& pass) const {
  return dropout_probability_ > 0 && pass.training && is_training();
}

Tensors SelfAttention::forward(const Tensors& inputs, const Pass& pass) {
  const Tensor& x = inputs.front();  // [N, T, C]
  // Parts of the last dimension: their gradients are joined with one copy.
  const std::vector<Tensor> parts = qkv_(x).chunk(3, -1);
  const Tensor q = split_heads(parts[0], heads_);
  const Tensor k = split_heads(parts[1], heads_);
  const Tensor v = split_heads(parts[2], heads_);
  Tensor mixed;
  if (drops(pass)) {
    // LibTorch's own would draw its mask from the process-wide generator.
    const Tensor weights = attention_weights(q, k, is_causal_);
    mixed = at::matmul(
        weights_dropout_
            ->forward({weights}, member_pass(pass, "weights_dropout"))
            .front(),
        v);
  } else {
    mixed = at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{},
                                             /*dropout_p=*/0.0, is_causal_);
  }
  const Tensor joined = mixed.transpose(1, 2).reshape(x.sizes());
  return dropout_->forward({projection_(joined)}, member_pass(pass, "dropout"));
}

}  // namespace sluice
