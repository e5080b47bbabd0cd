// A linear head that is solved, not stepped, as the upper layer of a module of
// a deep stacking network (Deng, He, Yu, Gao 2012, ICASSP; Hutchinson, Deng, Yu
// 2013): U = (H'H + lambda I)^-1 H'T, of the features H (with a 1 for the bias)
// and the one-hot labels T. The block learns from |H U - T|^2 at that U: since
// U is the minimum of |H U - T|^2 + lambda |U|^2, that is the gradient of the
// minimum itself, U moving along with H.
//
// Deviations: H'H and H'T are means over batches that fade by `decay` (0: of
// the batch alone, as published where a batch is the whole set), as a batch has
// fewer samples than equations. Predictions are not appended to the input of
// the block above.
#include <cstdint>
#include <memory>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "auxiliary_heads/boundary_site.h"
#include "lib/boundaries/head.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

struct RidgeOptions {
  double lambda = 1e-3;
  double decay = 0.99;
  std::int64_t pool = 1;
};

class RidgeHead final : public Head {
 public:
  RidgeHead(const BoundarySite& site, const RidgeOptions& options)
      : options_(options), classes_(site.classes) {
    const bool is_map = site.features.size() == 3;
    const std::int64_t inputs =
        1 + site.features[0] * (is_map ? options.pool * options.pool : 1);
    const at::TensorOptions type(at::kDouble);
    gram_ = register_buffer("gram", at::zeros({inputs, inputs}, type));
    cross_ = register_buffer("cross", at::zeros({inputs, classes_}, type));
    weight_ = register_buffer("weight", at::zeros({}, type));
  }

  /// The host reads whether a solution was found.
  Needs needs() const override { return {.host = true}; }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    at::Tensor input = features.front();  // [N, C] or [N, C, H, W]
    if (input.dim() == 4)
      input = flat(average_pool(input, options_.pool, options_.pool));
    input = input.to(at::kFloat);
    const at::Tensor h =
        at::cat({input, at::ones({input.size(0), 1}, input.options())}, 1);
    const at::Tensor targets = targets_of_labels(beside.labels);
    const at::Tensor predictions =
        at::mm(h, solved(h.detach(), targets));  // [N, classes]
    return {at::mse_loss(predictions, targets), predictions};
  }

 private:
  at::Tensor targets_of_labels(const at::Tensor& labels) const {
    return labels.is_floating_point()
               ? labels.to(at::kFloat)
               : at::one_hot(labels, classes_).to(at::kFloat);
  }

  /// U after the batch has been added to the means: [inputs, classes].
  at::Tensor solved(const at::Tensor& features, const at::Tensor& targets) {
    const at::NoGradGuard no_grad;
    const at::Tensor h = features.to(at::kDouble);
    const double part = 1 - options_.decay;
    const double share = part / static_cast<double>(h.size(0));
    gram_.mul_(options_.decay).add_(at::mm(h.t(), h), share);
    cross_.mul_(options_.decay)
        .add_(at::mm(h.t(), targets.to(at::kDouble)), share);
    weight_.mul_(options_.decay).add_(part);
    const at::Tensor ridge =
        at::eye(gram_.size(0), gram_.options()) * options_.lambda;
    return at::linalg_solve(gram_ / weight_ + ridge, cross_ / weight_)
        .to(at::kFloat);
  }

  RidgeOptions options_;
  std::int64_t classes_;
  at::Tensor gram_;    // mean of h h', times weight_
  at::Tensor cross_;   // mean of h t', times weight_
  at::Tensor weight_;  // 1 once old batches have faded
};

}  // namespace

MakeHead ridge_head(Fields& options) {
  RidgeOptions chosen;
  options.key("lambda", chosen.lambda,
              {.text = "weight of |U|^2 beside the mean over samples of "
                       "|h U - t|^2",
               .min = 1e-12});
  options.key("decay", chosen.decay,
              {.text = "part of H'H and H'T that the batches before keep; 0: U "
                       "is solved of the batch alone",
               .min = 0,
               .max = 0.999999});
  options.key("pool", chosen.pool,
              {.text = "maps are averaged to pool x pool first",
               .unit = "pixels",
               .min = 1});
  return [chosen](const BoundarySite& site) {
    check_features(site, "ridge");
    return std::make_shared<RidgeHead>(site, chosen);
  };
}

}  // namespace sluice
