// Of flat features: linear layers with ReLU on the flattened input, built as
// the linear synthesizer is, label and all. But the last layer doesn't begin at
// zero: a block that got zeros would learn nothing from them.
#include <functional>
#include <numeric>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "auxiliary_heads/input_models/input_models.h"
#include "auxiliary_heads/site.h"
#include "auxiliary_heads/synthesizers/one_hot.h"

namespace sluice {
namespace {

class LinearInputModel final : public InputModel {
 public:
  LinearInputModel(const SynthesizerOptions& options, const Site& site)
      : classes_(site.classes) {
    const SampleShape& input = site.model->sample.shape;
    const std::int64_t features = site.features[0];
    std::int64_t width = std::accumulate(input.begin(), input.end(),
                                         std::int64_t{1}, std::multiplies<>());
    for (std::int64_t i = 1; i <= options.hidden; ++i) {
      hidden_.push_back(register_module(
          fmt::format("linear{}", i), torch::nn::Linear(width, options.width)));
      width = options.width;
    }
    last_ = register_module("last", torch::nn::Linear(width, features));
    if (options.label)
      label_ = register_module(
          "label",
          torch::nn::Linear(torch::nn::LinearOptions(
                                classes_, hidden_.empty() ? features : width)
                                .bias(false)));
    initialise_parameters(*this, head_key(site, "input_model"));
  }

  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& labels,
                     const Pass&) override {
    at::Tensor x = inputs.flatten(1);
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      x = hidden_[i]->forward(x);
      if (i == 0) x = with_label(x, labels);
      x = at::relu(x);
    }
    x = last_->forward(x);
    return hidden_.empty() ? with_label(x, labels) : x;
  }

 private:
  at::Tensor with_label(const at::Tensor& x, const at::Tensor& labels) {
    return label_ ? x + label_->forward(as_one_hot(labels, classes_)) : x;
  }

  std::int64_t classes_;
  std::vector<torch::nn::Linear> hidden_;
  torch::nn::Linear last_ = nullptr;
  torch::nn::Linear label_ = nullptr;
};

}  // namespace

std::shared_ptr<InputModel> linear_input_model(
    const SynthesizerOptions& options, const Site& site) {
  return std::make_shared<LinearInputModel>(options, site);
}

}  // namespace sluice
