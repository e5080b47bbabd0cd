// A boundary of non-negative factors: DeepFacto (Khorram et al. 2021,
// arXiv:2105.00339), in the form of a penalty. Block k+1 takes z = S F in place
// of h_k, with S >= 0 a row for each sample of the batch and F >= 0 shared by
// all: S is fitted to h_k by multiplicative updates (Lee and Seung 2001) when
// the batch goes forward; when the gradient from above has come, S and F take a
// projected gradient step on loss + beta/2 |S F - h_k|^2 of each sample, and
// block k learns by that penalty. No dual, and S is forgotten with the batch.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {
namespace {

struct NmfOptions {
  std::int64_t rank = 8;
  std::int64_t fits = 10;
  double beta = 1;
  double step_size = 0.1;
  double factor_step_size = 0.1;
};

class NonNegativeFactors final : public Lower {
 public:
  NonNegativeFactors(const NmfOptions& options, const BoundarySite& site)
      : options_(options),
        block_(site.block),
        name_(fmt::format("factors.{}.f", site.layer)),
        factors_(first_factors(options, site)) {}

  Traits traits() const override { return {.publishes = true}; }

  Tensors publish(std::int64_t batch, const Tensors& features,
                  const Attachments& /*attachments*/) override {
    const at::NoGradGuard no_grad;
    const at::Tensor h = features.at(0).detach();
    check_signs(h);
    const at::Tensor s = fitted(h);
    coefficients_[batch] = s;
    return {at::mm(s, factors_).to(features[0].scalar_type())};
  }

  Signal signal(const BatchContext& context) override {
    const at::NoGradGuard no_grad;
    const at::Tensor h = context.features.at(0).detach();
    const double part = context.share / static_cast<double>(h.size(0));
    at::Tensor s = taken(context.batch, h);
    const at::Tensor pull = (at::mm(s, factors_) - h) * options_.beta +
                            context.from_above.at(0) / part;
    const at::Tensor at_s = at::mm(pull, factors_.t());
    const at::Tensor at_factors = at::mm(s.t(), pull) * part / size_of(s);
    s = (s - at_s * options_.step_size).clamp_min(0);
    factors_.copy_(
        (factors_ - at_factors * options_.factor_step_size).clamp_min(0));
    const at::Tensor residual = at::mm(s, factors_) - h;
    Signal signal;
    signal.gradients = {
        (residual * (-options_.beta * part)).to(h.scalar_type())};
    signal.loss = residual.square().sum() *
                  (options_.beta / 2 / static_cast<double>(h.size(0)));
    return signal;
  }

  Tensors passed(const Tensors& /*from_above*/) override {
    throw UserError("factors move by one gradient, and several come down");
  }

  NamedTensors buffers() const override { return {{name_, factors_}}; }

 private:
  static constexpr double kNoZero = 1e-8;

  /// Each unit belongs to one factor, with a drawn weight; rows have the
  /// norm 1. So F F' is the identity (where there are no more factors than
  /// units) and a step on S reaches every factor alike. Of dense uniform rows
  /// it would have one eigenvalue near 1, that of their common mean, and the
  /// others some 2 % of it: the residual of the fit, not the loss, would be
  /// what blocks learn.
  static at::Tensor first_factors(const NmfOptions& options,
                                  const BoundarySite& site) {
    if (site.features.size() != 1)
      throw UserError(
          "boundary {}: nmf takes flat features, [C], and these are [{}]",
          site.block, fmt::join(site.features, ", "));
    const std::int64_t units = site.features[0];
    const std::int64_t groups = std::min(options.rank, units);
    const Pass pass{.seed = site.seed, .layer = site.layer};
    const at::Tensor weights =
        at::rand({options.rank, units}, pass.generator("factors"),
                 at::TensorOptions(at::kFloat)) *
            0.5 +
        0.5;
    const at::Tensor of_factor =
        at::arange(options.rank, at::kLong).remainder(groups).unsqueeze(1);
    const at::Tensor of_unit =
        at::arange(units, at::kLong).remainder(groups).unsqueeze(0);
    const at::Tensor owned = weights * of_factor.eq(of_unit);
    return owned / owned.square().sum(1, true).sqrt();
  }

  /// The mean of |s|^2 over the samples: no less than the curvature of the mean
  /// penalty at F, over beta. By it the step on F is divided, which is so the
  /// same whatever the scale of the features, and with factor_step_size times
  /// beta below 2 can't go to and fro ever further, as a plain one did: rows of
  /// F grew, and with them all that is sent down.
  static at::Tensor size_of(const at::Tensor& s) {
    return s.square().sum() / s.size(0) + kNoZero;
  }

  /// S after so many multiplicative updates, from (h)+ F'.
  at::Tensor fitted(const at::Tensor& features) const {
    const at::Tensor target =
        at::mm(features.to(at::kFloat).clamp_min(0), factors_.t());
    const at::Tensor gram = at::mm(factors_, factors_.t());
    at::Tensor s = target;
    for (std::int64_t i = 0; i < options_.fits; ++i)
      s = s * target / (at::mm(s, gram) + kNoZero);
    return s;
  }

  /// Coefficients of the batch's forward, fitted anew where a checkpoint came
  /// between.
  at::Tensor taken(std::int64_t batch, const at::Tensor& features) {
    const auto found = coefficients_.extract(batch);
    return found.empty() ? fitted(features) : found.mapped();
  }

  /// A product of factors that aren't negative comes nowhere near features that
  /// are. Of the first batch alone: a GPU is waited for.
  void check_signs(const at::Tensor& features) {
    if (std::exchange(has_checked_, true) || features.numel() == 0) return;
    const auto lowest = features.min().item<double>();
    if (lowest < 0)
      throw UserError(
          "boundary {}: nmf takes features of which none is negative, as "
          "behind a ReLU, and the lowest is {:.3g}: set model.activation = "
          "'relu', cut the network elsewhere, or choose another policy",
          block_, lowest);
  }

  NmfOptions options_;
  std::int64_t block_;
  std::string name_;
  at::Tensor factors_;                               // F: [rank, C]
  std::map<std::int64_t, at::Tensor> coefficients_;  // S, by batch
  bool has_checked_ = false;
};

}  // namespace

MakeBoundary configure_nmf(Fields& options, const PlugIns&) {
  NmfOptions chosen;
  options.key("rank", chosen.rank,
              {.text = "number of factors: columns of S and rows of F",
               .min = 1,
               .max = 1e6});
  options.key("fits", chosen.fits,
              {.text = "multiplicative updates that fit S to the features of a "
                       "batch",
               .unit = "updates",
               .min = 0,
               .max = 10000});
  options.key("beta", chosen.beta,
              {.text = "weight of the penalty beta/2 |S F - h|^2 of a sample, "
                       "by which the block below learns",
               .min = 0});
  options.key("step_size", chosen.step_size,
              {.text = "of the gradient step on S", .min = 0});
  options.key("factor_step_size", chosen.factor_step_size,
              {.text = "of the gradient step on F, of the mean over samples, "
                       "divided by the mean of |S|^2 of a sample",
               .min = 0});
  if (chosen.beta == 0)
    options.reject("beta",
                   "the block below the factors learns by beta alone, and with "
                   "0 would stay as it is: set it above 0");
  return [chosen](const BoundarySite& site) {
    return std::make_unique<NonNegativeFactors>(chosen, site);
  };
}

MethodPage describe_nmf() {
  return {
      .source =
          "DeepFacto: Khorram et al. 2021, arXiv:2105.00339; multiplicative "
          "updates: Lee, Seung, NIPS 2001",
      .kept =
          "the graph of the batch and the factors' row of each of its "
          "samples, until the gradient from above has come",
      .batch_norm = "statistics move in the forward, once per batch",
      .randomness = "one forward, one mask; F begins as drawn from the seed",
      .staleness =
          "none. The block above trains on S F, and is evaluated on the "
          "features themselves"};
}

}  // namespace sluice
