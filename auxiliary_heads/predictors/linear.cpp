// Linear layers with ReLU, the last one bare: on flat features, and on texts
// and tokens of images place by place. An input of another shape than the
// output is flattened. The label, one-hot, goes through a matrix of its own and
// is added to the first layer's output.
#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include "auxiliary_heads/predictors/kinds.h"

namespace sluice {
namespace {

class LinearPredictor final : public Predictor {
 public:
  explicit LinearPredictor(const PredictorSpec& spec)
      : flattens_(spec.input != spec.output) {
    std::int64_t from =
        flattens_ ? c10::multiply_integers(spec.input) : spec.input.back();
    for (std::int64_t i = 1; i <= spec.options.hidden; ++i) {
      layers_.push_back(register_module(fmt::format("linear{}", i),
                                        FusedLinear(from, spec.options.width)));
      from = spec.options.width;
    }
    layers_.push_back(
        register_module("last", FusedLinear(from, spec.output.back())));
    if (spec.options.label)
      label_ = register_module(
          "label",
          label_matrix(spec.classes, layers_.front()->options.out_features()));
  }

  at::Tensor forward(const at::Tensor& input, const at::Tensor& labels,
                     const Pass&) override {
    at::Tensor x = flattens_ ? input.flatten(1) : input;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (i > 0) x = at::relu(x);
      x = layers_[i]->forward(x);
      if (i == 0 && label_) x = x + label_for(x, labels);
    }
    return x;
  }

 private:
  /// A text has a label for each place of x, an image one for all.
  at::Tensor label_for(const at::Tensor& x, const at::Tensor& labels) {
    const at::Tensor found = of_labels(label_, labels);
    return found.dim() < x.dim() ? found.unsqueeze(1) : found;
  }

  bool flattens_;
  std::vector<FusedLinear> layers_;
  FusedLinear label_ = nullptr;
};

}  // namespace

std::shared_ptr<Predictor> linear_predictor(const PredictorSpec& spec) {
  return std::make_shared<LinearPredictor>(spec);
}

}  // namespace sluice
