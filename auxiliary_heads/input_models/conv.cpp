// Of maps: the image, averaged or repeated to the size of the features, through
// 5x5 convolutions with BatchNorm and ReLU, the last one bare. The label,
// one-hot, goes through a matrix of its own and is added to every pixel of the
// first convolution's output.
#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "auxiliary_heads/input_models/input_models.h"
#include "auxiliary_heads/site.h"
#include "auxiliary_heads/synthesizers/one_hot.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

torch::nn::Conv2d convolution_to(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 5).padding(2));
}

class ConvInputModel final : public InputModel {
 public:
  ConvInputModel(const SynthesizerOptions& options, const Site& site)
      : classes_(site.classes), size_({site.features[1], site.features[2]}) {
    const std::int64_t channels = site.features[0];
    std::int64_t from = site.model->sample.shape[0];
    for (std::int64_t i = 1; i <= options.hidden; ++i) {
      convolutions_.push_back(register_module(fmt::format("conv{}", i),
                                              convolution_to(from, channels)));
      norms_.push_back(register_module(fmt::format("norm{}", i),
                                       torch::nn::BatchNorm2d(channels)));
      from = channels;
    }
    last_ = register_module("last", convolution_to(from, channels));
    if (options.label)
      label_ = register_module(
          "label",
          torch::nn::Linear(
              torch::nn::LinearOptions(classes_, channels).bias(false)));
    initialise_parameters(*this, head_key(site, "input_model"));
  }

  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& labels,
                     const Pass&) override {
    if (!norms_.empty()) check_batch(inputs, size_[0] * size_[1], "unlock");
    at::Tensor x = inputs.sizes().slice(2) == at::IntArrayRef(size_)
                       ? inputs
                       : average_pool(inputs, size_[0], size_[1]);
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      x = convolutions_[i]->forward(x);
      if (i == 0) x = with_label(x, labels);
      x = at::relu(norms_[i]->forward(x));
    }
    x = last_->forward(x);
    return convolutions_.empty() ? with_label(x, labels) : x;
  }

 private:
  at::Tensor with_label(const at::Tensor& maps, const at::Tensor& labels) {
    if (!label_) return maps;
    const at::Tensor added = label_->forward(as_one_hot(labels, classes_));
    return maps + added.unsqueeze(-1).unsqueeze(-1);
  }

  std::int64_t classes_;
  std::vector<std::int64_t> size_;  // of the features: [H, W]
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Conv2d last_ = nullptr;
  torch::nn::Linear label_ = nullptr;
};

}  // namespace

std::shared_ptr<InputModel> conv_input_model(const SynthesizerOptions& options,
                                             const Site& site) {
  return std::make_shared<ConvInputModel>(options, site);
}

}  // namespace sluice
