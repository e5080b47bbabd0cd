#pragma once

#include <cstdint>
#include <string_view>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "lib/blocks/fused_linear.h"
#include "lib/boundaries/head.h"

namespace sluice {

/// "1c2f" of InfoPro (Wang et al., ICLR 2021, arXiv:2101.10832): a 3x3
/// convolution of stride 2 to twice the channels, BatchNorm, ReLU, the mean
/// over all pixels, a linear layer of 128, ReLU, a linear layer. Features that
/// have as many channels as any map of the model keep them, and stride 1.
class Net1c2f final : public torch::nn::Module {
 public:
  /// Sets the weights from the site's seed.
  Net1c2f(const BoundarySite& site, std::int64_t outputs);

  /// maps [N, C, H, W] -> [N, outputs]. Throws UserError, in the name of
  /// `head`, when there is too little for BatchNorm.
  at::Tensor forward(const at::Tensor& maps, std::string_view head);

 private:
  std::int64_t pixels_;  ///< that BatchNorm sees of a sample
  torch::nn::Conv2d conv_ = nullptr;
  torch::nn::BatchNorm2d norm_ = nullptr;
  FusedLinear linear1_ = nullptr;
  FusedLinear linear2_ = nullptr;
};

}  // namespace sluice
