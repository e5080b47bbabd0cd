// A head as large as the convolutional synthesizers of synthetic gradients
// (Jaderberg et al. 2017, arXiv:1608.05343), with which the authors of
// decoupled greedy learning (Belilovsky et al. 2020, arXiv:1901.08164) compare
// their method to those: three 5x5 convolutions of the features' channels, the
// first two with BatchNorm and ReLU, the mean over all pixels, a linear
// classifier. The last convolution's weight begins at zero, so that the first
// step gives the features a gradient of exactly zero.
#include <memory>
#include <utility>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/stacks.h"
#include "lib/blocks/fused_linear.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

class FullConvHead final : public Head {
 public:
  explicit FullConvHead(const BoundarySite& site)
      : loss_(site.loss),
        pixels_(site.features[1] * site.features[2]),
        convolutions_(convolutions(2, site.features[0], 5, /*bias=*/true)),
        last_(convolution(site.features[0], 5, /*bias=*/true)),
        classifier_(site.features[0], site.classes) {
    register_module("convolutions", convolutions_);
    register_module("last", last_);
    register_module("classifier", classifier_);
    initialise_parameters(*this, head_key(site, "full_conv"));
    last_->weight.detach().zero_();
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor& input = features.front();  // [N, C, H, W]
    if (is_training()) check_batch(input, pixels_, "full_conv");
    const at::Tensor maps = last_(convolutions_->forward(input));
    const at::Tensor logits = classifier_(pixel_mean(maps));  // [N, classes]
    return {loss_(logits, beside.labels), logits};
  }

 private:
  Loss loss_;
  std::int64_t pixels_;
  torch::nn::Sequential convolutions_;
  torch::nn::Conv2d last_;
  FusedLinear classifier_;
};

}  // namespace

MakeHead full_conv_head(Fields& /*options*/) {
  return [](const BoundarySite& site) {
    check_maps(site, "full_conv");
    return std::make_shared<FullConvHead>(site);
  };
}

}  // namespace sluice
