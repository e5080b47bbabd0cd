// Local error signals (Nokland & Eidnes, ICML 2019, arXiv:1901.06656): the loss
// is (1 - beta) times that of a linear classifier on the pooled features, plus
// beta times the mean squared difference between two similarity matrices: that
// of the features behind a small trainable layer, and that of the labels.
// beta = 0 is the paper's "pred", 1 its "sim"; the part that doesn't count then
// isn't there.
//
// Deviation: a sample whose features are all alike has similarity 0 and
// gradient 0, where the authors' code gives NaN.
#include <memory>
#include <utility>

#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/conv.h>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/similarity.h"
#include "lib/blocks/fused_linear.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

struct PredsimOptions {
  double beta = 0.99;
  std::int64_t dim_in_decoder = 4096;

  void describe(Fields& fields) {
    fields.key("beta", beta,
               {.text = "weight of the similarity loss; 0: classifier only "
                        "(pred), 1: similarity only (sim)",
                .min = 0,
                .max = 1});
    fields.key("dim_in_decoder", dim_in_decoder,
               {.text = "maps are averaged until the classifier has no more "
                        "inputs than this, or a pixel is left",
                .min = 1});
  }
};

class PredsimHead final : public Head {
 public:
  PredsimHead(const BoundarySite& site, const PredsimOptions& options)
      : loss_(site.loss), classes_(site.classes), beta_(options.beta) {
    if (beta_ > 0) make_similarity(site.features);
    if (beta_ < 1) make_prediction(site.features, options.dim_in_decoder);
    initialise_parameters(*this, head_key(site, "predsim"));
    // The classifier's weight begins at zero: no gradient reaches the features
    // until it has learned. The bias keeps LibTorch's initial values.
    if (prediction_) prediction_->weight.detach().zero_();
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor& input = features.front();  // [N, C] or [N, C, H, W]
    HeadResult result;
    if (prediction_) {
      result.logits = predict(input);  // [N, classes]
      result.loss = loss_(result.logits, beside.labels);
      if (beta_ > 0) result.loss = (1 - beta_) * result.loss;
    }
    if (beta_ > 0) {
      const at::Tensor similarity = beta_ * mismatch(input, beside.labels);
      result.loss =
          result.loss.defined() ? result.loss + similarity : similarity;
    }
    return result;
  }

 private:
  void make_similarity(const SampleShape& features) {
    const std::int64_t channels = features.front();
    if (features.size() == 3) {
      convolution_ =
          torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3)
                                .padding(1)
                                .bias(false));
      register_module("similarity", convolution_);
    } else {
      linear_ =
          FusedLinear(torch::nn::LinearOptions(channels, channels).bias(false));
      register_module("similarity", linear_);
    }
  }

  void make_prediction(const SampleShape& features, std::int64_t limit) {
    std::int64_t inputs = features.front();
    if (features.size() == 3) {
      plan_ = plan_pool(inputs, features[1], features[2], limit);
      inputs *= plan_.height * plan_.width;
    }
    prediction_ = FusedLinear(inputs, classes_);
    register_module("prediction", prediction_);
  }

  at::Tensor predict(const at::Tensor& input) {
    return prediction_(input.dim() == 4 ? flat(pooled(input, plan_)) : input);
  }

  at::Tensor mismatch(const at::Tensor& input, const at::Tensor& labels) {
    const at::Tensor encoded =
        input.dim() == 4 ? convolution_(input) : linear_(input);
    const at::Tensor similarity = similarity_matrix(encoded);  // [N, N]
    return at::mse_loss(
        similarity,
        label_similarity(labels, classes_).to(similarity.scalar_type()));
  }

  Loss loss_;
  std::int64_t classes_;
  double beta_;
  PoolPlan plan_;
  torch::nn::Conv2d convolution_ = nullptr;
  FusedLinear linear_ = nullptr;
  FusedLinear prediction_ = nullptr;
};

}  // namespace

MakeHead predsim_head(Fields& fields) {
  PredsimOptions options;
  options.describe(fields);
  return [options](const BoundarySite& site) {
    check_features(site, "predsim");
    if (options.beta > 0)
      check_labels_are_classes(site,
                               fmt::format("[predsim] block {}", site.block));
    return std::make_shared<PredsimHead>(site, options);
  };
}

}  // namespace sluice
