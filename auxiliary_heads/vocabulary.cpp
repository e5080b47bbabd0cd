// For texts: a norm and a linear layer to the vocabulary at every place, like
// the last layer of a language model, trained with the run's own loss.
#include <memory>
#include <utility>

#include <torch/nn/modules/normalization.h>

#include "auxiliary_heads/boundary_site.h"
#include "lib/blocks/fused_linear.h"

namespace sluice {
namespace {

class VocabularyHead final : public Head {
 public:
  explicit VocabularyHead(const BoundarySite& site)
      : loss_(site.loss),
        norm_(torch::nn::LayerNormOptions({site.features[1]})),
        vocabulary_(torch::nn::LinearOptions(site.features[1], site.classes)
                        .bias(false)) {
    register_module("norm", norm_);
    register_module("vocabulary", vocabulary_);
    initialise_parameters(*this, head_key(site, "vocabulary"));
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor& input = features.front();           // [N, T, C]
    const at::Tensor logits = vocabulary_(norm_(input));  // [N, T, classes]
    return {loss_(logits, beside.labels), logits};
  }

 private:
  Loss loss_;
  torch::nn::LayerNorm norm_;
  FusedLinear vocabulary_;
};

}  // namespace

MakeHead vocabulary_head(Fields& /*options*/) {
  return [](const BoundarySite& site) {
    check_sequences(site, "vocabulary");
    return std::make_shared<VocabularyHead>(site);
  };
}

}  // namespace sluice
