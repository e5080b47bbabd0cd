#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>

#include "lib/base/config.h"
#include "modules/attention.h"
#include "modules/chain.h"

namespace sluice {

/// Layer normalisation over the last dimension of [..., width], with an
/// optional bias (LibTorch's nn::LayerNorm always has one): Ba et al. 2016,
/// arXiv:1607.06450.
class LayerNorm final : public torch::nn::Module {
 public:
  LayerNorm(std::int64_t width, bool bias, double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::int64_t width_;
  double epsilon_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Rejects a width that the heads don't divide.
void check_heads(const TransformerOptions& options, const Fields& fields);

/// Multiply-adds of a layer for one sample of that many places: as ModelBuilder
/// counts, a norm's element twice and what another step reads once. The
/// products of attention are counted whole, masked half included.
double transformer_flops(std::int64_t places, std::int64_t width);

/// h + attention(norm(h)), then h + mlp(norm(h)): [N, T, C] -> [N, T, C]. The
/// MLP is four times as wide. Further tensors of the tuple pass unchanged.
class TransformerLayer final : public Layer {
 public:
  /// depth: the number of such layers in the network, for the initial weights;
  /// 0: they don't depend on it.
  TransformerLayer(const TransformerOptions& options, std::int64_t depth);
  Tensors forward(const Tensors& inputs, const Pass& pass) override;
  /// As GPT-2: weights normal with deviation 0.02, of those that write to the
  /// residual stream 0.02 / sqrt(2 depth); biases 0, norms 1. Depth 0: 0.02
  /// everywhere.
  void initialise(std::uint64_t key) override;

 private:
  std::int64_t depth_;
  std::shared_ptr<LayerNorm> norm1_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<LayerNorm> norm2_;
  std::shared_ptr<Chain> mlp_;
};

}  // namespace sluice
