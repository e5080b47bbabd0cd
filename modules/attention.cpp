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

/// q, k: [N, heads, T, d] -> [N, heads, T, T]; each row adds up to 1.
Tensor causal_weights(const Tensor& q, const Tensor& k) {
  const std::int64_t places = q.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor later =
      at::ones({places, places}, q.options().dtype(at::kBool)).triu_(1);
  return at::matmul(q * scale, k.transpose(2, 3))
      .masked_fill_(later, -std::numeric_limits<double>::infinity())
      .softmax(-1);
}

}  // namespace

CausalSelfAttention::CausalSelfAttention(const TransformerOptions& options)
    : heads_(options.heads),
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

bool CausalSelfAttention::drops(const Pass& pass) const {
  return dropout_probability_ > 0 && pass.training && is_training();
}

Tensors CausalSelfAttention::forward(const Tensors& inputs, const Pass& pass) {
  const Tensor& x = inputs.front();  // [N, T, C]
  const std::int64_t samples = x.size(0);
  const std::int64_t places = x.size(1);
  const std::vector<Tensor> parts =
      qkv_(x)
          .view({samples, places, 3, heads_, x.size(2) / heads_})
          .permute({2, 0, 3, 1, 4})
          .unbind(0);
  const Tensor &q = parts[0], &k = parts[1], &v = parts[2];  // [N, heads, T, d]
  Tensor mixed;
  if (drops(pass)) {
    // LibTorch's own would draw its mask from the process-wide generator.
    const Tensor weights = causal_weights(q, k);
    mixed = at::matmul(
        weights_dropout_
            ->forward({weights}, member_pass(pass, "weights_dropout"))
            .front(),
        v);
  } else {
    mixed = at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{},
                                             /*dropout_p=*/0.0,
                                             /*is_causal=*/true);
  }
  const Tensor joined = mixed.transpose(1, 2).reshape(x.sizes());
  return dropout_->forward({projection_(joined)}, member_pass(pass, "dropout"));
}

}  // namespace sluice
