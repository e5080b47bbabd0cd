#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lib/blocks/layer.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

/// The oracle: a network of LibTorch's own modules, written without anything of
/// Sluice but its dropout layer, and never cut.
class PlainNet : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor x, std::uint64_t seed,
                             std::int64_t batch) = 0;
  /// Parameters and statistics under the names that Sluice gives them.
  NamedTensors named() const;

 protected:
  at::Tensor drop(const at::Tensor& x, std::int64_t layer, std::uint64_t seed,
                  std::int64_t batch);
  void add_dropout(double p);

 private:
  std::shared_ptr<Layer> dropout_;
};

/// `widths`: of the input, the hidden layers and the output.
class PlainMlp final : public PlainNet {
 public:
  PlainMlp(std::vector<std::int64_t> widths, bool batch_norm, double dropout);
  at::Tensor forward(at::Tensor x, std::uint64_t seed,
                     std::int64_t batch) override;

 private:
  std::vector<torch::nn::Linear> linears_;
  std::vector<torch::nn::BatchNorm1d> norms_;
};

/// Three times [conv 5x5, BatchNorm, ReLU, pool 3x3], then linear; for 28x28.
class PlainConv3 final : public PlainNet {
 public:
  PlainConv3(std::int64_t channels, double dropout);
  at::Tensor forward(at::Tensor x, std::uint64_t seed,
                     std::int64_t batch) override;

 private:
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Linear linear_ = nullptr;
};

}  // namespace sluice
