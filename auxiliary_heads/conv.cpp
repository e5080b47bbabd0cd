// "CNN" of decoupled greedy learning (Belilovsky et al., ICML 2020,
// arXiv:1901.08164): 3x3 convolutions on the map as it is, which is then
// averaged to 2x2 and normalised for a linear classifier.
#include <memory>
#include <utility>

#include <torch/nn/modules/batchnorm.h>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/stacks.h"
#include "lib/blocks/fused_linear.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

class ConvHead final : public Head {
 public:
  ConvHead(const BoundarySite& site, std::int64_t layers)
      : loss_(site.loss),
        // Without a convolution only the 2x2 map is normalised.
        normalised_values_(layers > 0 ? site.features[1] * site.features[2]
                                      : 4),
        convolutions_(convolutions(layers, site.features[0], 3)),
        norm_(site.features[0]),
        classifier_(site.features[0] * 2 * 2, site.classes) {
    register_module("convolutions", convolutions_);
    register_module("norm", norm_);
    register_module("classifier", classifier_);
    initialise_parameters(*this, head_key(site, "conv"));
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor& input = features.front();  // [N, C, H, W]
    if (is_training()) check_batch(input, normalised_values_, "conv");
    const at::Tensor pooled = average_pool(through(convolutions_, input), 2, 2);
    const at::Tensor logits = classifier_(norm_(pooled).flatten(1));
    return {loss_(logits, beside.labels), logits};  // logits: [N, classes]
  }

 private:
  Loss loss_;
  std::int64_t normalised_values_;
  torch::nn::Sequential convolutions_;
  torch::nn::BatchNorm2d norm_;
  FusedLinear classifier_;
};

}  // namespace

MakeHead conv_head(Fields& options) {
  std::int64_t layers = 2;
  options.key("layers", layers, {.text = "3x3 convolutions", .min = 0});
  return [layers](const BoundarySite& site) {
    check_maps(site, "conv");
    return std::make_shared<ConvHead>(site, layers);
  };
}

}  // namespace sluice
