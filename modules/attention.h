#pragma once

#include <cstdint>
#include <memory>

#include "lib/blocks/fused_linear.h"
#include "modules/dropout.h"

namespace sluice {

/// What the parts of a Transformer layer have in common.
struct TransformerOptions {
  std::int64_t width = 128;  ///< C; a multiple of `heads`
  std::int64_t heads = 4;
  double dropout = 0;
  bool bias = true;       ///< of linear layers and norms
  bool tanh_gelu = true;  ///< GELU by its tanh approximation
  bool causal = true;     ///< place t sees places 0 to t; else all places
  double norm_epsilon = 1e-5;
};

/// Self-attention: [N, T, C] -> [N, T, C]. Several heads, scaled dot products
/// (Vaswani et al. 2017, arXiv:1706.03762, section 3.2), then a linear layer.
/// Dropout of the attention weights and of the output.
class SelfAttention final : public Layer {
 public:
  explicit SelfAttention(const TransformerOptions& options);
  Tensors forward(const Tensors& inputs, const Pass& pass) override;

 private:
  bool drops(const Pass& pass) const;

  std::int64_t heads_;
  bool is_causal_;
  double dropout_probability_;
  FusedLinear qkv_;
  FusedLinear projection_;
  std::shared_ptr<Dropout> weights_dropout_;
  std::shared_ptr<Dropout> dropout_;
};

}  // namespace sluice
