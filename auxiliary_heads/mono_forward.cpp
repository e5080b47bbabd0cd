// Mono-Forward (Gong, Li, Abdulla 2025, arXiv:2501.09238): a matrix M projects
// the activations of a layer to a goodness for each class, G = a M^T, and layer
// and M learn from the cross entropy of softmax(G) and the label: one forward,
// without the second pass on wrong labels that Forward-Forward needs.
//
// Deviations: maps may be averaged first (`pool`), as M grows with every pixel;
// M begins like LibTorch's linear layers. Evaluations use the logits of the
// model's own last layer (the paper's prediction in the manner of
// back-propagation); goodness isn't added up over layers.
#include <memory>
#include <utility>

#include "auxiliary_heads/boundary_site.h"
#include "lib/blocks/fused_linear.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

/// Values of a sample that M projects. pool 0: all there are.
std::int64_t inputs_of(const SampleShape& features, std::int64_t pool) {
  if (features.size() == 1) return features[0];
  const std::int64_t pixels =
      pool > 0 ? pool * pool : features[1] * features[2];
  return features[0] * pixels;
}

class MonoForwardHead final : public Head {
 public:
  MonoForwardHead(const BoundarySite& site, std::int64_t pool)
      : loss_(site.loss),
        pool_(pool),
        projection_(torch::nn::LinearOptions(inputs_of(site.features, pool),
                                             site.classes)
                        .bias(false)) {
    register_module("projection", projection_);
    initialise_parameters(*this, head_key(site, "mono_forward"));
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    at::Tensor input = features.front();  // [N, C] or [N, C, H, W]
    if (input.dim() == 4)
      input = flat(pool_ > 0 ? average_pool(input, pool_, pool_) : input);
    const at::Tensor goodness = projection_(input);  // [N, classes]
    return {loss_(goodness, beside.labels), goodness};
  }

 private:
  Loss loss_;
  std::int64_t pool_;
  FusedLinear projection_;
};

}  // namespace

MakeHead mono_forward_head(Fields& options) {
  std::int64_t pool = 0;
  options.key("pool", pool,
              {.text = "maps are averaged to pool x pool first; 0: every pixel "
                       "is projected",
               .unit = "pixels",
               .min = 0});
  return [pool](const BoundarySite& site) {
    check_features(site, "mono_forward");
    return std::make_shared<MonoForwardHead>(site, pool);
  };
}

}  // namespace sluice
