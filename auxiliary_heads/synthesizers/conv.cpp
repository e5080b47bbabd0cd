// On maps: 5x5 convolutions of the features' channels with BatchNorm and ReLU,
// the last one bare. The label, one-hot, goes through a matrix of its own and
// is added to every pixel of the first convolution's output. As in the
// experiments of Belilovsky et al. 2020 (arXiv:1901.08164) with synthetic
// gradients. Where it must run twice for a batch its running statistics move
// twice; nothing reads them.
#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "auxiliary_heads/site.h"
#include "auxiliary_heads/stacks.h"
#include "auxiliary_heads/synthesizers/one_hot.h"
#include "auxiliary_heads/synthesizers/synthesizers.h"

namespace sluice {
namespace {

class ConvSynthesizer final : public Synthesizer {
 public:
  ConvSynthesizer(const SynthesizerOptions& options, const Site& site)
      : classes_(site.classes), pixels_(site.features[1] * site.features[2]) {
    const std::int64_t channels = site.features[0];
    for (std::int64_t i = 1; i <= options.hidden; ++i) {
      convolutions_.push_back(register_module(
          fmt::format("conv{}", i), convolution(channels, 5, /*bias=*/true)));
      norms_.push_back(register_module(fmt::format("norm{}", i),
                                       torch::nn::BatchNorm2d(channels)));
    }
    last_ = register_module("last", convolution(channels, 5, /*bias=*/true));
    if (options.label)
      label_ = register_module(
          "label",
          torch::nn::Linear(
              torch::nn::LinearOptions(classes_, channels).bias(false)));
    initialise_parameters(*this, head_key(site, "synthesizer"));
    zero_last_layer(*last_, options);
    if (label_ && convolutions_.empty()) label_->weight.detach().zero_();
  }

  at::Tensor forward(const at::Tensor& features,
                     const at::Tensor& labels) override {
    if (!norms_.empty()) check_batch(features, pixels_, "synthesizer");
    at::Tensor x = features;
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
  std::int64_t pixels_;
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Conv2d last_ = nullptr;
  torch::nn::Linear label_ = nullptr;
};

}  // namespace

std::shared_ptr<Synthesizer> conv_synthesizer(const SynthesizerOptions& options,
                                              const Site& site) {
  return std::make_shared<ConvSynthesizer>(options, site);
}

}  // namespace sluice
