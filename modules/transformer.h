#pragma once

#include <memory>

#include <torch/nn/module.h>

#include "modules/attention.h"
#include "modules/chain.h"

namespace sluice {

/// Over the last dimension of [..., width], with an optional bias (LibTorch's
/// nn::LayerNorm always has one): Ba et al. 2016, arXiv:1607.06450.
class LayerNorm final : public torch::nn::Module {
 public:
  LayerNorm(std::int64_t width, bool bias);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::int64_t width_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// h + attention(norm(h)), then h + mlp(norm(h)): [N, T, C] -> [N, T, C]. The
/// MLP is four times as wide. Further tensors of the tuple pass unchanged.
class TransformerLayer final : public Layer {
 public:
  /// depth: the number of such layers in the network, for the initial weights.
  TransformerLayer(const TransformerOptions& options, std::int64_t depth);
  Tensors forward(const Tensors& inputs, const Pass& pass) override;
  /// As GPT-2: weights normal with deviation 0.02, of those that write to the
  /// residual stream 0.02 / sqrt(2 depth); biases 0, norms 1.
  void initialise(std::uint64_t key) override;

 private:
  std::int64_t depth_;
  std::shared_ptr<LayerNorm> norm1_;
  std::shared_ptr<CausalSelfAttention> attention_;
  std::shared_ptr<LayerNorm> norm2_;
  std::shared_ptr<Chain> mlp_;
};

}  // namespace sluice
