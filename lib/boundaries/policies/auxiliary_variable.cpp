#include "lib/boundaries/policies/auxiliary_variable.h"

#include <cstddef>
#include <memory>
#include <vector>

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
  SampleState state = {};  ///< beside it; undefined without
  bool has_moved = false;
};

/// Change of z by Adam (Kingma and Ba, arXiv:1412.6980), with its constants.
at::Tensor adam_step(const at::Tensor& gradient, double rate,
                     SampleState& state) {
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.999;
  constexpr double kEpsilon = 1e-8;
  state.steps = state.steps + 1;
  state.mean = at::lerp(state.mean, gradient, 1 - kBeta1);
  state.variance = at::lerp(state.variance, gradient.square(), 1 - kBeta2);
  const auto correction = [&](double beta) {
    const at::Tensor power = at::pow(beta, state.steps.to(at::kDouble));
    return (1 - power).to(gradient.scalar_type());
  };
  const at::Tensor root =
      (state.variance / correction(kBeta2)).sqrt() + kEpsilon;
  return state.mean / correction(kBeta1) / root * -rate;
}

/// As of a sample that was never there.
SampleState first_state(const VariableOptions& options, const at::Tensor& h) {
  SampleState state;
  if (options.has_dual()) state.dual = at::zeros_like(h);
  if (!options.has_moments()) return state;
  state.mean = at::zeros_like(h);
  state.variance = at::zeros_like(h);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(h.dim()), 1);
  sizes[0] = h.size(0);
  state.steps = at::zeros(sizes, h.options().dtype(at::kLong));
  return state;
}

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
              fmt::format("variables.{}", site.layer),
              {.dual = options.has_dual(), .moments = options.has_moments()},
              /*remembered=*/options.memory == VariablesOf::sample ? 1 : 0),
        batches_per_epoch_(site.batches_per_epoch) {}

  Traits traits() const override {
    Traits traits{.lower = {.publishes = true}};
    if (options_.order == VariablesOrder::weights_first) {
      traits.cut = traits.own = true;
      traits.lower.learns = traits.from_above = options_.steps > 0;
    } else {
      traits.lower.sweeps = {
          .steps = options_.steps,
          .at_once = options_.order == VariablesOrder::at_once};
    }
    if (is_kept()) traits.lower.attachments = {kSampleIds};
    return traits;
  }

  Tensors publish(std::int64_t batch, const Tensors& features,
                  const Attachments& attachments) override {
    if (!is_kept()) return features;
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
                       (visit.is_last || rises_by_sweep());
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
      if (now_.has_moved) leave(context);
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
    return is_kept() ? rows_.tables() : NamedTensors();
  }

 private:
  bool is_kept() const { return options_.memory != VariablesOf::batch; }

  bool is_scaled() const { return options_.dual == DualOf::scaled; }

  /// What a batch's own dual has become after the weights' turn is forgotten.
  bool rises_by_sweep() const {
    return options_.dual == DualOf::multiplier || !is_kept();
  }

  SampleIds ids_of(std::int64_t batch, const Attachments& attachments,
                   const at::Tensor& features) const {
    return sample_ids_of(batch, batches_per_epoch_, attachments,
                         features.size(0));
  }

  /// The variable of a batch, before its first step.
  Variable begun(const BatchContext& context) const {
    const at::Tensor h = the_one_of(context.features).detach();
    Variable variable{.features = h};
    if (is_kept()) {
      variable.ids = ids_of(context.batch, context.attachments, h);
      variable.residual = rows_.residuals(variable.ids, h);
      variable.state = rows_.state(variable.ids);
    } else {
      variable.residual = at::zeros_like(h);
      variable.state = first_state(options_, h);
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
    const at::Tensor& dual = variable.state.dual;
    if (!dual.defined()) return pull;
    return pull + (is_scaled() ? dual * options_.beta : dual);
  }

  void move(const BatchContext& context, Variable& variable) const {
    const at::Tensor gradient =
        pull_of(variable) + context.from_above.at(0) / part_of(context);
    variable.residual =
        options_.has_moments()
            ? variable.residual +
                  adam_step(gradient, options_.step_size, variable.state)
            : variable.residual - gradient * options_.step_size;
    variable.has_moved = true;
  }

  void raise_dual(Variable& variable) const {
    at::Tensor& dual = variable.state.dual;
    if (!dual.defined()) return;
    dual = dual + (is_scaled() ? variable.residual
                               : variable.residual * options_.beta);
  }

  /// Keeps the variable after the last step of a batch. For the later passes
  /// over an echo z moves once more where its multiplier has risen, by the same
  /// gradient: to where both together pull at h as the gradient does.
  void leave(const BatchContext& context) {
    if (options_.memory == VariablesOf::echo && now_.state.dual.defined())
      move(context, now_);
    keep(now_);
  }

  void keep(const Variable& variable) {
    if (is_kept())
      rows_.keep(variable.ids, variable.features + variable.residual,
                 variable.state);
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
              {.text = "of the steps on z (epsilon). With step = 'gradient' "
                       "beta times it is what one step from the top multiplies "
                       "the gradient by; with 'adam' it is Adam's rate",
               .min = 0});
  options.key(
      "step", chosen.step,
      {{"gradient", VariablesStep::gradient}, {"adam", VariablesStep::adam}},
      {.text = "gradient: z moves by step_size times its gradient; "
               "adam: by Adam, with its constants 0.9, 0.999 and 1e-8, "
               "whose moments are kept as long as z is"});
  options.key("steps", chosen.steps,
              {.text = "steps of z for a batch, before its weights "
                       "move: each is a visit of all blocks, with a message up "
                       "and one down. 0, with order = 'weights_first': z stays "
                       "as it was left, and nothing comes down",
               .unit = "steps",
               .min = 0,
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
              {{"batch", VariablesOf::batch},
               {"sample", VariablesOf::sample},
               {"echo", VariablesOf::echo}},
              {.text = "batch: z begins at h in each batch. sample: z is kept "
                       "for each training sample (a table of all samples times "
                       "features in memory, and in checkpoints), which must "
                       "then be the same in every epoch. echo: z is kept for "
                       "the batches of data.echo, as they were "
                       "augmented, until its last pass"});
}

void check_weights_first(const Fields& options, const VariableOptions& chosen) {
  if (chosen.steps > 1)
    options.reject(
        "steps",
        "with order = 'weights_first' z moves once in each visit, or "
        "with 0 not at all: leave steps out, or set another order");
  if (chosen.memory == VariablesOf::batch)
    options.reject("order",
                   "'weights_first' needs z of an earlier visit: set memory = "
                   "'sample' or, with data.echo, 'echo'");
  if (chosen.memory == VariablesOf::sample && chosen.steps == 0)
    options.reject("steps",
                   "with 0 no z would ever leave h, and no block below learn: "
                   "set 1, or memory = 'echo' after a pass in another order");
}

void check_echo(const Fields& options, const VariableOptions& chosen) {
  if (chosen.order == VariablesOrder::at_once)
    options.reject("order",
                   "with 'at_once' a step brings the gradient down by one "
                   "boundary, and a pass over an echo leaves no z below: set "
                   "'top_down' and 'weights_first'");
  if (chosen.step == VariablesStep::adam)
    options.reject("step",
                   "a step of Adam is as long whatever the gradient, which a "
                   "pass over an echo could not leave in z: set step = "
                   "'gradient'");
}

}  // namespace

MakeBoundary auxiliary_variable(Fields& options, VariableOptions defaults) {
  VariableOptions chosen = defaults;
  read_variable(options, chosen);
  if (chosen.beta == 0)
    options.reject("beta",
                   "blocks below the variable learn by beta alone, and with 0 "
                   "would stay as they are: set it above 0");
  if (chosen.order == VariablesOrder::weights_first)
    check_weights_first(options, chosen);
  else if (chosen.steps == 0)
    options.reject("steps",
                   "0 leaves z at h, and blocks below would stay as they are: "
                   "set 1 or more, or order = 'weights_first'");
  if (chosen.memory == VariablesOf::echo) check_echo(options, chosen);
  return [chosen](const BoundarySite& site) {
    return std::make_unique<AuxiliaryVariable>(chosen, site);
  };
}

}  // namespace sluice
