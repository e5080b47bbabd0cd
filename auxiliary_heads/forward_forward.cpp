// Forward-Forward (Hinton 2022, arXiv:2212.13345): the goodness of a layer, the
// sum of the squares of its activity, shall be large for a sample with the
// right label and small for one with a wrong label. No parameters; the run's
// loss (`goodness`: the paper's; `cross_entropy`: a softmax over the variants)
// says what large is. For the model ff_mlp, which see.
#include <memory>
#include <utility>

#include <fmt/ranges.h>

#include "auxiliary_heads/boundary_site.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

class ForwardForwardHead final : public Head {
 public:
  explicit ForwardForwardHead(Loss loss) : loss_(std::move(loss)) {}

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    // [N, V, C] -> [N, V]; labels [N]: which of the V variants is right
    const at::Tensor goodness = features.front().square().sum(-1);
    return {loss_(goodness, beside.labels), goodness};
  }

 private:
  Loss loss_;
};

}  // namespace

MakeHead forward_forward_head(Fields& /*options*/) {
  return [](const BoundarySite& site) {
    if (site.model == nullptr || !site.model->trains_on_pairs)
      throw UserError(
          "[forward_forward] block {}: needs a model that trains on pairs of "
          "samples, as 'ff_mlp' does",
          site.block);
    return std::make_shared<ForwardForwardHead>(site.loss);
  };
}

}  // namespace sluice
