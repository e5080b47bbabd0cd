// InfoPro (Wang et al., ICLR 2021, arXiv:2101.10832): features shall keep what
// the input was and say what its class is. The loss is lambda1 times the binary
// cross entropy of the input, in 0..1, as a small decoder rebuilds it, plus
// lambda2 times that of a classifier ("1c2f"): supervised contrast of its 128
// outputs, or the run's loss. Both weights go linearly from the first head to
// the last; a part of weight 0 isn't there. The last block has the run's loss
// alone.
//
// Deviation: the sigmoid is a part of the loss, which is then finite without
// the clamp of BCELoss.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/relu.h>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/contrast.h"
#include "auxiliary_heads/net_1c2f.h"
#include "lib/base/error.h"
#include "lib/tensors/pooling.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

constexpr std::int64_t kDecoderChannels = 12;
constexpr std::int64_t kContrastFeatures = 128;

struct InfoproOptions {
  std::vector<double> lambda1 = {1, 0};
  std::vector<double> lambda2 = {0, 1};
  bool is_contrast = true;
  double temperature = 0.07;

  void describe(Fields& fields) {
    describe_weight(fields, "lambda1", lambda1,
                    "weight of the input's reconstruction, at the first head "
                    "and at the last");
    describe_weight(fields, "lambda2", lambda2,
                    "weight of the classifier's loss, at the first head and "
                    "at the last");
    fields.key("objective", is_contrast,
               {{"contrast", true}, {"cross_entropy", false}},
               {.text = "objective of the classifier: supervised contrast, or "
                        "the run's own loss"});
    fields.key(
        "temperature", temperature,
        {.text = "temperature of the contrast", .min = 1e-3, .max = 1e3});
  }

 private:
  static void describe_weight(Fields& fields, std::string_view name,
                              std::vector<double>& weight,
                              std::string_view text) {
    fields.key(name, weight, {.text = text, .min = 0});
    if (weight.size() != 2)
      fields.reject(name, "two numbers: at the first head and at the last");
  }
};

/// A single head has the first value, as in the authors' code.
double weight_at(const BoundarySite& site, const std::vector<double>& ends) {
  if (site.blocks <= 2) return ends[0];
  const double ratio = static_cast<double>(site.block - 1) /
                       static_cast<double>(site.blocks - 2);
  return ends[0] * (1 - ratio) + ends[1] * ratio;
}

/// maps [N, C, H, W] -> logits of an image [N, channels, height, width].
class Decoder final : public torch::nn::Module {
 public:
  explicit Decoder(const BoundarySite& site)
      : height_(site.model->sample.shape[1]),
        width_(site.model->sample.shape[2]) {
    conv1_ = register_module("conv1",
                             convolution(site.features[0], kDecoderChannels));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(kDecoderChannels));
    conv2_ = register_module(
        "conv2", convolution(kDecoderChannels, site.model->sample.shape[0]));
    initialise_parameters(*this, head_key(site, "infopro decoder"));
  }

  at::Tensor forward(const at::Tensor& maps) {
    if (is_training()) check_batch(maps, height_ * width_, "infopro");
    const at::Tensor resized = resize_bilinear(maps, height_, width_);
    return conv2_(at::relu(norm_(conv1_(resized))));
  }

 private:
  static torch::nn::Conv2d convolution(std::int64_t inputs,
                                       std::int64_t outputs) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(inputs, outputs, 3).padding(1));
  }

  std::int64_t height_;
  std::int64_t width_;
  torch::nn::Conv2d conv1_ = nullptr;
  torch::nn::BatchNorm2d norm_ = nullptr;
  torch::nn::Conv2d conv2_ = nullptr;
};

class InfoproHead final : public Head {
 public:
  InfoproHead(const BoundarySite& site, const InfoproOptions& options)
      : loss_(site.loss),
        lambda1_(weight_at(site, options.lambda1)),
        lambda2_(weight_at(site, options.lambda2)),
        is_contrast_(options.is_contrast),
        temperature_(options.temperature) {
    if (lambda1_ == 0 && lambda2_ == 0)
      throw UserError(
          "[infopro] block {}: lambda1 and lambda2 are both 0 there, so it "
          "would learn nothing",
          site.block);
    if (lambda1_ > 0)
      decoder_ = register_module("decoder", std::make_shared<Decoder>(site));
    if (lambda2_ > 0)
      classifier_ = register_module(
          "classifier",
          std::make_shared<Net1c2f>(
              site, is_contrast_ ? kContrastFeatures : site.classes));
  }

  Needs needs() const override { return {.raw_input = lambda1_ > 0}; }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    HeadResult result;
    if (lambda2_ > 0) result = classified(features.front(), beside.labels);
    if (lambda1_ == 0) return result;
    const at::Tensor rebuilt = reconstruction_loss(features.front(), beside);
    result.loss = result.loss.defined() ? result.loss + rebuilt : rebuilt;
    return result;
  }

 private:
  HeadResult classified(const at::Tensor& maps, const at::Tensor& labels) {
    HeadResult result;
    const at::Tensor outputs = classifier_->forward(maps, "infopro");
    if (is_contrast_) {
      result.loss = supervised_contrast(outputs, labels, temperature_);
    } else {
      result.loss = loss_(outputs, labels);
      result.logits = outputs;  // [N, classes]
    }
    // A weight of 1 leaves the very bits of a head without decoder.
    if (lambda2_ != 1) result.loss = lambda2_ * result.loss;
    return result;
  }

  at::Tensor reconstruction_loss(const at::Tensor& maps,
                                 const HeadInputs& beside) {
    SLUICE_CHECK(beside.raw_input.defined(), "[infopro] got no input");
    const at::Tensor logits = decoder_->forward(maps);
    const FullPrecisionScope full_precision;
    return lambda1_ *
           at::binary_cross_entropy_with_logits(
               logits.to(beside.raw_input.scalar_type()), beside.raw_input);
  }

  Loss loss_;
  double lambda1_;
  double lambda2_;
  bool is_contrast_;
  double temperature_;
  std::shared_ptr<Decoder> decoder_;
  std::shared_ptr<Net1c2f> classifier_;
};

}  // namespace

MakeHead infopro_head(Fields& fields) {
  InfoproOptions options;
  options.describe(fields);
  return [options](const BoundarySite& site) {
    check_maps(site, "infopro");
    if (options.is_contrast)
      check_labels_are_classes(site,
                               fmt::format("[infopro] block {}", site.block));
    SLUICE_CHECK(site.model != nullptr, "the site above block {} has no model",
                 site.block);
    return std::make_shared<InfoproHead>(site, options);
  };
}

}  // namespace sluice
