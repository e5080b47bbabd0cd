#pragma once

#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>

namespace sluice {

/// torch::nn::Linear whose bias is added by the kernel of the product, as
/// Python's does: LibTorch's C++ adds the bias to inputs of three dimensions in
/// a pass of its own. [*, inputs] -> [*, outputs].
class FusedLinearImpl : public torch::nn::LinearImpl {
 public:
  using LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& input) {
    return at::linear(input, weight, bias);
  }
};
TORCH_MODULE(FusedLinear);

}  // namespace sluice
