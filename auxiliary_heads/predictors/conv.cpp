// Convolutions, 5x5, with BatchNorm and ReLU, the last one bare: on maps, to
// the output's channels. As in the experiments of Belilovsky et al. 2020
// (arXiv:1901.08164) with synthetic gradients. An input of another size than
// the output is averaged or repeated to that size first. The label, one-hot,
// goes through a matrix of its own and is added to every pixel of the first
// convolution's output. Running statistics move with each forward, so twice
// where a batch is forwarded twice; nothing reads them.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/predictors/kinds.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

torch::nn::Conv2d convolution_to(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 5).padding(2));
}

class ConvPredictor final : public Predictor {
 public:
  explicit ConvPredictor(const PredictorSpec& spec)
      : section_(spec.section), size_({spec.output[1], spec.output[2]}) {
    const std::int64_t channels = spec.output[0];
    std::int64_t from = spec.input[0];
    for (std::int64_t i = 1; i <= spec.options.hidden; ++i) {
      convolutions_.push_back(register_module(fmt::format("conv{}", i),
                                              convolution_to(from, channels)));
      norms_.push_back(register_module(fmt::format("norm{}", i),
                                       torch::nn::BatchNorm2d(channels)));
      from = channels;
    }
    convolutions_.push_back(
        register_module("last", convolution_to(from, channels)));
    if (spec.options.label)
      label_ = register_module("label", label_matrix(spec.classes, channels));
  }

  at::Tensor forward(const at::Tensor& input, const at::Tensor& labels,
                     const Pass&) override {
    if (!norms_.empty()) check_batch(input, size_[0] * size_[1], section_);
    at::Tensor x = input.sizes().slice(2) == at::IntArrayRef(size_)
                       ? input
                       : average_pool(input, size_[0], size_[1]);
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      if (i > 0) x = at::relu(norms_[i - 1]->forward(x));
      x = convolutions_[i]->forward(x);
      if (i == 0 && label_)
        x = x + of_labels(label_, labels).unsqueeze(-1).unsqueeze(-1);
    }
    return x;
  }

 private:
  std::string_view section_;
  std::vector<std::int64_t> size_;  // of the output: [H, W]
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  FusedLinear label_ = nullptr;
};

}  // namespace

std::shared_ptr<Predictor> conv_predictor(const PredictorSpec& spec) {
  return std::make_shared<ConvPredictor>(spec);
}

}  // namespace sluice
