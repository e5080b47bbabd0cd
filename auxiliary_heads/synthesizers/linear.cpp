// On flat features, and on texts place by place: linear layers with ReLU. The
// label, one-hot, goes through a matrix of its own and is added to the first
// layer's output.
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "auxiliary_heads/site.h"
#include "auxiliary_heads/synthesizers/one_hot.h"
#include "auxiliary_heads/synthesizers/synthesizers.h"

namespace sluice {
namespace {

class LinearSynthesizer final : public Synthesizer {
 public:
  LinearSynthesizer(const SynthesizerOptions& options, const Site& site)
      : classes_(site.classes) {
    const std::int64_t channels = site.features.back();
    std::int64_t width = channels;
    for (std::int64_t i = 1; i <= options.hidden; ++i) {
      hidden_.push_back(register_module(
          fmt::format("linear{}", i), torch::nn::Linear(width, options.width)));
      width = options.width;
    }
    last_ = register_module("last", torch::nn::Linear(width, channels));
    if (options.label)
      label_ = register_module(
          "label",
          torch::nn::Linear(torch::nn::LinearOptions(
                                classes_, hidden_.empty() ? channels : width)
                                .bias(false)));
    initialise_parameters(*this, head_key(site, "synthesizer"));
    zero_last_layer(*last_, options);
    // Without hidden layers the label's matrix is part of the last one.
    if (label_ && hidden_.empty()) label_->weight.detach().zero_();
  }

  at::Tensor forward(const at::Tensor& features,
                     const at::Tensor& labels) override {
    at::Tensor x = features;
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      x = hidden_[i]->forward(x);
      if (i == 0 && label_)
        x = x + label_->forward(as_one_hot(labels, classes_));
      x = at::relu(x);
    }
    x = last_->forward(x);
    if (hidden_.empty() && label_)
      x = x + label_->forward(as_one_hot(labels, classes_));
    return x;
  }

 private:
  std::int64_t classes_;
  std::vector<torch::nn::Linear> hidden_;
  torch::nn::Linear last_ = nullptr;
  torch::nn::Linear label_ = nullptr;
};

}  // namespace

std::shared_ptr<Synthesizer> linear_synthesizer(
    const SynthesizerOptions& options, const Site& site) {
  return std::make_shared<LinearSynthesizer>(options, site);
}

}  // namespace sluice
