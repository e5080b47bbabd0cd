#pragma once

#include <cstdint>

#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>

namespace sluice {

/// A low-rank adapter of a linear layer (LoRA: Hu et al. 2021,
/// arXiv:2106.09685, section 4.1).
struct AdapterOptions {
  std::int64_t rank = 0;  ///< r; 0: none
  double alpha = 16;

  double scale() const { return alpha / static_cast<double>(rank); }
};

/// torch::nn::Linear whose bias is added by the kernel of the product, as
/// Python's does: LibTorch's C++ adds the bias to inputs of three dimensions in
/// a pass of its own. [*, inputs] -> [*, outputs].
class FusedLinearImpl : public torch::nn::LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  /// From now on adds scale * lora_b lora_a x, whose values are to be set
  /// (begin_adapters()).
  void adapt(const AdapterOptions& adapter) {
    scale_ = adapter.scale();
    lora_a = register_parameter(
        "lora_a", at::zeros({adapter.rank, options.in_features()}));
    lora_b = register_parameter(
        "lora_b", at::zeros({options.out_features(), adapter.rank}));
  }
  bool has_adapter() const { return lora_a.defined(); }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = at::linear(input, weight, bias);
    if (!has_adapter()) return output;
    return output + at::linear(at::linear(input, lora_a), lora_b) * scale_;
  }

  at::Tensor lora_a = {};  ///< [rank, inputs]
  at::Tensor lora_b = {};  ///< [outputs, rank]

 private:
  double scale_ = 1;
};
TORCH_MODULE(FusedLinear);

}  // namespace sluice
