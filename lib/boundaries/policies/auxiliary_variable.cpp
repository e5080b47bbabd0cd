#include "lib/boundaries/policies/auxiliary_variable.h"

#include <memory>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/boundaries/policies/sample_rows.h"

namespace sluice {
namespace {

/// Variable z of a batch.
struct Variable {
  SampleIds ids = {};        ///< where its samples keep theirs
  at::Tensor features = {};  ///< f_k(z_{k-1})
  at::Tensor residual = {};
  at::Tensor dual = {};  ///< undefined without
  bool has_moved = false;
};

const at::Tensor& the_one_of(const Tensors& features) {
  if (features.size() == 1) return features[0];
  throw UserError(
      "the block has {} outputs; an auxiliary variable stands for one",
      features.size());
}

class AuxiliaryVariable final : public Lower {
 public:
  AuxiliaryVariable(const VariableOptions& options, const BoundarySite& site)
      : options_(options),
        rows_(site.samples, site.features,
              fmt::format("variables.{}", site.layer), options.has_dual()),
        batches_per_epoch_(site.batches_per_epoch) {}

  Traits traits() const override {
    Traits traits{.publishes = true};
    if (options_.order == VariablesOrder::weights_first) {
      traits.cut = traits.own = traits.learns = true;
    } else {
      traits.sweeps = {.steps = options_.steps,
                       .at_once = options_.order == VariablesOrder::at_once};
    }
    if (is_of_samples()) traits.attachments = {kSampleIds};
    return traits;
  }

  Tensors publish(std::int64_t batch, const Tensors& features,
                  const Attachments& attachments) override {
    if (!is_of_samples()) return features;
    const at::NoGradGuard no_grad;
    const at::Tensor h = the_one_of(features).detach();
    return {rows_.variables(ids_of(batch, attachments, h), h)};
  }

  Signal signal(const BatchContext& context) override {
    const at::NoGradGuard no_grad;
    if (context.visit.round == 0)
      now_ = begun(context);
    else
      follow(the_one_of(context.features).detach());
    const bool moves = options_.order != VariablesOrder::weights_first &&
                       !context.from_above.empty();
    if (moves) move(context, now_);
    const Visit& visit = context.visit;
    const bool rises = now_.has_moved && visit.goes_back &&
                       (visit.is_last || options_.dual == DualOf::multiplier);
    // All variables of a sweep see the multipliers of the sweep before.
    const bool rises_first =
        options_.order == VariablesOrder::at_once && !visit.is_last;
    if (rises && rises_first) raise_dual(now_);
    Signal signal = signal_of(context);
    if (rises && !rises_first) raise_dual(now_);
    if (!visit.is_last) {
      signal.published = {
          (now_.features + now_.residual).to(now_.features.scalar_type())};
    } else {
      if (now_.has_moved) keep(now_);
      now_ = {};
    }
    return signal;
  }

  Tensors passed(const Tensors& /*from_above*/) override {
    throw UserError(
        "an auxiliary variable moves by one gradient, and several come down");
  }

  /// z moves at the weights that the block had before its update.
  Lesson learn(const BatchContext& context) override {
    const at::NoGradGuard no_grad;
    Variable variable = begun(context);
    move(context, variable);
    raise_dual(variable);
    keep(variable);
    return {.gradients = {},
            .loss = mean_square(variable.residual),
            .loss_name = "residual"};
  }

  NamedTensors buffers() const override {
    return is_of_samples() ? rows_.tables() : NamedTensors();
  }

 private:
  bool is_of_samples() const { return options_.memory == VariablesOf::sample; }

  bool is_scaled() const { return options_.dual == DualOf::scaled; }

  SampleIds ids_of(std::int64_t batch, const Attachments& attachments,
                   const at::Tensor& features) const {
    const auto found = attachments.find(kSampleIds);
    SLUICE_CHECK(found != attachments.end(),
                 "the variables of samples want to know which they are");
    if (found->second.numel() == features.size(0))
      return {found->second,
              batches_per_epoch_ > 0 ? batch / batches_per_epoch_ : 0};
    throw UserError(
        "a batch of {} samples has {} rows of features: variables can be of "
        "the batch only (memory = 'batch')",
        found->second.numel(), features.size(0));
  }

  /// The variable of a batch, before its first step.
  Variable begun(const BatchContext& context) const {
    const at::Tensor h = the_one_of(context.features).detach();
    Variable variable{.features = h};
    if (is_of_samples()) {
      variable.ids = ids_of(context.batch, context.attachments, h);
      variable.residual = rows_.residuals(variable.ids, h);
      variable.dual = rows_.duals(variable.ids);
    } else {
      variable.residual = at::zeros_like(h);
      if (options_.has_dual()) variable.dual = at::zeros_like(h);
    }
    return variable;
  }

  /// Takes the block's new features: z stays, and what it should equal has
  /// moved.
  void follow(const at::Tensor& features) {
    now_.residual = now_.residual + (now_.features - features);
    now_.features = features;
  }

  /// The part of a mean over the turn that one sample has.
  static double part_of(const BatchContext& context) {
    return context.share /
           static_cast<double>(the_one_of(context.features).size(0));
  }

  /// Gradient of a sample's objective at z, but for what comes from above.
  at::Tensor pull_of(const Variable& variable) const {
    at::Tensor pull = variable.residual * options_.beta;
    if (!variable.dual.defined()) return pull;
    return pull + (is_scaled() ? variable.dual * options_.beta : variable.dual);
  }

  void move(const BatchContext& context, Variable& variable) const {
    const at::Tensor gradient =
        pull_of(variable) + context.from_above.at(0) / part_of(context);
    variable.residual = variable.residual - gradient * options_.step_size;
    variable.has_moved = true;
  }

  void raise_dual(Variable& variable) const {
    if (!variable.dual.defined()) return;
    const at::Tensor rise =
        is_scaled() ? variable.residual : variable.residual * options_.beta;
    variable.dual = variable.dual + rise;
  }

  void keep(const Variable& variable) {
    if (is_of_samples())
      rows_.keep(variable.ids, variable.features + variable.residual,
                 variable.dual);
  }

  static at::Tensor mean_square(const at::Tensor& residual) {
    return residual.square().sum() / static_cast<double>(residual.size(0));
  }

  Signal signal_of(const BatchContext& context) const {
    Signal signal;
    signal.gradients = {(pull_of(now_) * -part_of(context))
                            .to(the_one_of(context.features).scalar_type())};
    signal.loss = mean_square(now_.residual) * (options_.beta / 2);
    return signal;
  }

  VariableOptions options_;
  SampleRows rows_;
  std::int64_t batches_per_epoch_;
  Variable now_;  // between the visits of a batch
};

void read_variable(Fields& options, VariableOptions& chosen) {
  options.key("beta", chosen.beta,
              {.text = "weight of the penalty beta/2 |z - h|^2 of a sample, "
                       "where z is what the block above takes in place of h",
               .min = 0});
  options.key("step_size", chosen.step_size,
              {.text = "of the gradient steps on z (epsilon). beta times it is "
                       "what one step from the top multiplies the gradient by",
               .min = 0});
  options.key("steps", chosen.steps,
              {.text = "gradient steps on z for a batch, before its weights "
                       "move: each is a visit of all blocks, with a message up "
                       "and one down",
               .unit = "steps",
               .min = 1,
               .max = 1000});
  options.key("order", chosen.order,
              {{"top_down", VariablesOrder::top_down},
               {"at_once", VariablesOrder::at_once},
               {"weights_first", VariablesOrder::weights_first}},
              {.text = "top_down: a z moves after the one above it; at_once: "
                       "all move together; then the weights. weights_first: "
                       "weights move by the z of the last visit, in all blocks "
                       "at once, and z when the gradient from above has come"});
  options.key("memory", chosen.memory,
              {{"batch", VariablesOf::batch}, {"sample", VariablesOf::sample}},
              {.text = "whether z begins at h in each batch, or is kept for "
                       "each training sample (a table of all samples times "
                       "features in memory, and in checkpoints), which must "
                       "then be the same in every epoch"});
}

}  // namespace

MakeBoundary auxiliary_variable(Fields& options, VariableOptions defaults) {
  VariableOptions chosen = defaults;
  read_variable(options, chosen);
  if (chosen.beta == 0)
    options.reject("beta",
                   "blocks below the variable learn by beta alone, and with 0 "
                   "would stay as they are: set it above 0");
  if (chosen.order == VariablesOrder::weights_first) {
    if (chosen.steps > 1)
      options.reject("steps",
                     "with order = 'weights_first' z moves once in each visit: "
                     "leave steps out, or set another order");
    if (chosen.memory == VariablesOf::batch)
      options.reject("order",
                     "'weights_first' needs z of an earlier visit: set memory "
                     "= 'sample'");
  }
  return [chosen](const BoundarySite& site) {
    return std::make_unique<AuxiliaryVariable>(chosen, site);
  };
}

}  // namespace sluice
