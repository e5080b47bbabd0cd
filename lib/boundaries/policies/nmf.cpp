// A boundary of non-negative factors: DeepFacto (Khorram et al. 2021,
// arXiv:2105.00339). Block k+1 takes z = S F in place of h_k, with S >= 0 a row
// for each sample and F >= 0 shared by all. S is fitted to h_k by
// multiplicative updates (Lee and Seung 2001) when a sample goes forward for
// the first time; with memory = "batch" in each batch anew. When the gradient
// from above has come, S and F take a projected gradient step on
//
//   loss + beta/2 |S F - h_k + u|^2   of each sample,
//
// and block k learns by that; the scaled dual u then grows by S F - h_k, as in
// block_admm.cpp. An evaluation may pass the factors too: S is fitted to the
// features of what is evaluated.
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
#include "lib/boundaries/policies/sample_rows.h"

namespace sluice {
namespace {

enum class FactorsOf : std::uint8_t { batch, sample };
enum class Evaluates : std::uint8_t { features, factors };

struct NmfOptions {
  std::int64_t rank = 8;
  std::int64_t fits = 10;
  double beta = 1;
  double step_size = 0.1;
  double factor_step_size = 0.1;
  FactorsOf memory = FactorsOf::batch;
  bool dual = false;
  Evaluates evaluate = Evaluates::features;
};

class NonNegativeFactors final : public Lower {
 public:
  NonNegativeFactors(const NmfOptions& options, const BoundarySite& site)
      : options_(options),
        block_(site.block),
        name_(fmt::format("factors.{}.f", site.layer)),
        factors_(first_factors(options, site)),
        rows_(site.samples, {options.rank},
              fmt::format("variables.{}.s", site.layer), {}),
        duals_(site.samples, site.features,
               fmt::format("variables.{}.u", site.layer), {}),
        batches_per_epoch_(site.batches_per_epoch) {}

  Traits traits() const override {
    Traits traits{.lower = {.publishes = true}};
    if (is_of_samples()) traits.lower.attachments = {kSampleIds};
    return traits;
  }

  Tensors publish(std::int64_t batch, const Tensors& features,
                  const Attachments& attachments) override {
    const at::NoGradGuard no_grad;
    const at::Tensor h = features.at(0).detach();
    check_signs(h);
    const at::Tensor s = begun(batch, attachments, h);
    coefficients_[batch] = s;
    return {at::mm(s, factors_).to(features[0].scalar_type())};
  }

  Tensors evaluated(const Tensors& features) override {
    if (options_.evaluate == Evaluates::features) return features;
    const at::NoGradGuard no_grad;
    const at::Tensor& h = features.at(0);
    return {at::mm(fitted(h), factors_).to(h.scalar_type())};
  }

  NamedTensors evaluation_state() const override {
    if (options_.evaluate == Evaluates::features) return {};
    return {{name_, factors_}};
  }

  Signal signal(const BatchContext& context) override {
    const at::NoGradGuard no_grad;
    const at::Tensor h = context.features.at(0).detach();
    const double part = context.share / static_cast<double>(h.size(0));
    at::Tensor s = taken(context, h);
    const at::Tensor u = dual_of(context, h);
    const at::Tensor pull = with(u, at::mm(s, factors_) - h) * options_.beta +
                            context.from_above.at(0) / part;
    const at::Tensor at_s = at::mm(pull, factors_.t());
    const at::Tensor at_factors = at::mm(s.t(), pull) * part / size_of(s);
    s = (s - at_s * options_.step_size).clamp_min(0);
    factors_.copy_(
        (factors_ - at_factors * options_.factor_step_size).clamp_min(0));
    const at::Tensor residual = at::mm(s, factors_) - h;
    Signal signal;
    signal.gradients = {
        (with(u, residual) * (-options_.beta * part)).to(h.scalar_type())};
    signal.loss = residual.square().sum() *
                  (options_.beta / 2 / static_cast<double>(h.size(0)));
    keep(context, s, with(u, residual));
    return signal;
  }

  Tensors passed(const Tensors& /*from_above*/) override {
    throw UserError("factors move by one gradient, and several come down");
  }

  NamedTensors buffers() const override {
    NamedTensors all = {{name_, factors_}};
    if (is_of_samples())
      for (auto& table : rows_.tables()) all.push_back(std::move(table));
    if (options_.dual)
      for (auto& table : duals_.tables()) all.push_back(std::move(table));
    return all;
  }

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

  bool is_of_samples() const { return options_.memory == FactorsOf::sample; }

  SampleIds ids_of(std::int64_t batch, const Attachments& attachments,
                   const at::Tensor& features) const {
    return sample_ids_of(batch, batches_per_epoch_, attachments,
                         features.size(0));
  }

  /// S as the batch's samples have it before its step.
  at::Tensor begun(std::int64_t batch, const Attachments& attachments,
                   const at::Tensor& features) const {
    const at::Tensor s = fitted(features);
    return is_of_samples()
               ? rows_.variables(ids_of(batch, attachments, features), s)
               : s;
  }

  /// S of the batch's forward, made anew where a checkpoint came between.
  at::Tensor taken(const BatchContext& context, const at::Tensor& features) {
    const auto found = coefficients_.extract(context.batch);
    return found.empty() ? begun(context.batch, context.attachments, features)
                         : found.mapped();
  }

  /// u; undefined without.
  at::Tensor dual_of(const BatchContext& context,
                     const at::Tensor& features) const {
    if (!options_.dual) return {};
    return duals_.variables(
        ids_of(context.batch, context.attachments, features),
        at::zeros_like(features));
  }

  static at::Tensor with(const at::Tensor& dual, const at::Tensor& residual) {
    return dual.defined() ? residual + dual : residual;
  }

  void keep(const BatchContext& context, const at::Tensor& s,
            const at::Tensor& u) {
    if (!is_of_samples()) return;
    const SampleIds ids =
        ids_of(context.batch, context.attachments, context.features.at(0));
    rows_.keep(ids, s);
    if (options_.dual) duals_.keep(ids, u);
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
  at::Tensor factors_;  // F: [rank, C]
  SampleRows rows_;     // of S
  SampleRows duals_;    // u
  std::int64_t batches_per_epoch_;
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
  options.key(
      "memory", chosen.memory,
      {{"batch", FactorsOf::batch}, {"sample", FactorsOf::sample}},
      {.text = "whether S is fitted to h in each batch, or kept for each "
               "training sample (a table of all samples times rank in "
               "memory, and in checkpoints), which must then be the "
               "same in every epoch"});
  options.key("dual", chosen.dual,
              {.text = "a scaled dual u of each sample, which grows by S F - h "
                       "after each of its batches; with memory = 'sample'"});
  options.key(
      "evaluate", chosen.evaluate,
      {{"features", Evaluates::features}, {"factors", Evaluates::factors}},
      {.text = "what the block above takes in evaluations: the features "
               "h, or S F with S fitted to them"});
  if (chosen.dual && chosen.memory == FactorsOf::batch)
    options.reject("dual",
                   "the dual of a sample grows from one of its batches to the "
                   "next: set memory = 'sample', or dual = false");
  if (chosen.beta == 0)
    options.reject("beta",
                   "the block below the factors learns by beta alone, and with "
                   "0 would stay as it is: set it above 0");
  MakeBoundary make = [chosen](const BoundarySite& site) {
    return std::make_unique<NonNegativeFactors>(chosen, site);
  };
  make.changes_evaluations = chosen.evaluate == Evaluates::factors;
  return make;
}

MethodPage describe_nmf() {
  return {
      .source =
          "DeepFacto: Khorram et al. 2021, arXiv:2105.00339; multiplicative "
          "updates: Lee, Seung, NIPS 2001",
      .kept =
          "the graph of the batch and the factors' row of each of its "
          "samples, until the gradient from above has come; with memory = "
          "\"sample\" that row, and with dual = true the dual, of every "
          "training sample",
      .batch_norm = "statistics move in the forward, once per batch",
      .randomness = "one forward, one mask; F begins as drawn from the seed",
      .staleness =
          "none; with memory = \"sample\" the block above trains on the S of "
          "a sample's last visit, an epoch ago. It trains on S F, and is "
          "evaluated on that with evaluate = \"factors\", else on the features "
          "themselves",
      .example = "memory = 'sample', dual = true, evaluate = 'factors'"};
}

}  // namespace sluice
