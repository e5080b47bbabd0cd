// A linear classifier on the features, maps being pooled to pool x pool first
// and tokens of images to their mean, trained with the run's own loss.
#include <memory>
#include <utility>

#include "auxiliary_heads/boundary_site.h"
#include "lib/base/error.h"
#include "lib/blocks/fused_linear.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

class LinearHead final : public Head {
 public:
  LinearHead(const BoundarySite& site, std::int64_t pool)
      : loss_(site.loss),
        pool_(pool),
        is_map_(site.features.size() == 3),
        has_tokens_(site.features.size() == 2),
        classifier_(
            is_map_ ? site.features[0] * pool * pool : site.features.back(),
            site.classes) {
    register_module("classifier", classifier_);
    initialise_parameters(*this, head_key(site, "linear"));
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    at::Tensor input = features.front();  // [N, C], [N, C, H, W], [N, T, C]
    if (is_map_) input = average_pool(input, pool_, pool_).flatten(1);
    if (has_tokens_) input = input.mean(1);
    const at::Tensor logits = classifier_(input);  // [N, classes]
    return {loss_(logits, beside.labels), logits};
  }

 private:
  Loss loss_;
  std::int64_t pool_;
  bool is_map_;
  bool has_tokens_;
  FusedLinear classifier_;
};

}  // namespace

MakeHead linear_head(Fields& options) {
  std::int64_t pool = 1;
  options.key("pool", pool,
              {.text = "maps are averaged to pool x pool first; flat features "
                       "are taken as they are, tokens of images averaged",
               .unit = "pixels",
               .min = 1});
  return [pool](const BoundarySite& site) {
    check_features_or_tokens(site, "linear");
    return std::make_shared<LinearHead>(site, pool);
  };
}

}  // namespace sluice
