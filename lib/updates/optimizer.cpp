#include "lib/updates/optimizer.h"

#include <ATen/ATen.h>

#include "lib/base/added_rows.h"
#include "lib/base/error.h"
#include "lib/base/plug_in.h"
#include "lib/updates/chosen_transforms.h"
#include "lib/updates/corrections.h"
#include "lib/updates/transform.h"

namespace sluice {

MakeOptimizer read_adagrad(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_adam(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_adamw(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_lamb(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_lars(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_lion(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_muon(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_nadam(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_nadamw(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_rmsprop(Fields& fields, OptimizerOptions& options);
MakeOptimizer read_sgd(Fields& fields, OptimizerOptions& options);

std::span<const OptimizerRow> optimizers() {
  static constexpr OptimizerRow kRows[] = {
      {"adagrad", "rates by the sum of squared gradients", read_adagrad},
      {"adam", "Adam, weight decay added to the gradient", read_adam},
      {"adamw", "Adam with decoupled weight decay", read_adamw},
      {"lamb", "AdamW's steps, scaled to the length of each matrix", read_lamb},
      {"lars", "momentum, with a rate of its own for each matrix", read_lars},
      {"lion", "the sign of a momentum, weight decay decoupled", read_lion},
      {"muon", "orthogonal steps of matrices, AdamW for the rest", read_muon},
      {"nadam", "Adam that looks ahead, tolerates delay", read_nadam},
      {"nadamw", "NAdam with decoupled weight decay", read_nadamw},
      {"rmsprop", "rates by a mean of squared gradients", read_rmsprop},
      {"sgd", "with momentum, Nesterov, weight decay", read_sgd},
  };
  return with_added<ReadOptimizer>(kRows);
}

void MovedWeights::copy() const {
  for (std::size_t i = 0; i < now.size(); ++i)
    at::Tensor(now[i]).copy_(before[i]);
}

void Optimizer::step_from(const MovedWeights& moved, const Tensors& gradients,
                          double learning_rate) {
  moved.copy();
  step(gradients, learning_rate);
}

Tensors Optimizer::direction(double /*learning_rate*/) const {
  throw UserError(
      "weights that are predicted need the velocity of the optimizer, and this "
      "one has none: set optimizer.name = 'adamw' or 'muon', or 'sgd' with a "
      "momentum");
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const NamedTensors& parameters) {
  if (options.make) return options.make(options, parameters);
  OptimizerOptions own = options;
  Fields defaults(nullptr, "optimizer");
  const OptimizerRow& row = find_row(optimizers(), own.name, "optimizer");
  return row.make(defaults, own)(own, parameters);
}

void OptimizerOptions::describe_moments(Fields& fields) {
  fields.key("beta1", beta1,
             {.text = "decay of the mean", .min = 0, .max = 0.999999});
  fields.key("beta2", beta2,
             {.text = "decay of the variance", .min = 0, .max = 0.999999});
  fields.key("epsilon", epsilon,
             {.text = "added to the root of the variance", .min = 0});
}

void OptimizerOptions::describe(Fields& fields) {
  const OptimizerRow& row =
      choose(fields, "name", optimizers(), name, "optimizer");
  learning_rate.describe(fields);
  fields.key(
      "weight_decay", weight_decay,
      {.text = "factor by which every weight is pulled towards 0", .min = 0});
  make = row.make(fields, *this);
  fields.list("groups", "parameters that differ",
              [&](Fields& group, std::int64_t index) {
                ParameterGroup values;
                values.weight_decay = weight_decay;
                group.key("match", values.match,
                          {.text = "shell patterns of parameter names; the "
                                   "first group that matches "
                                   "holds"});
                group.key(
                    "weight_decay", values.weight_decay,
                    {.text = "weight decay of these parameters", .min = 0});
                group.key("lr_scale", values.lr_scale,
                          {.text = "factor of the learning rate", .min = 0});
                if (index < 0) return;
                if (values.match.empty())
                  group.reject("match", "a group needs at least one pattern");
                groups.push_back(values);
              });
  fields.section("clip", "of the gradient's norm", [&](Fields& clip) {
    clip.key(
        "norm", clip_norm,
        {.text = "largest norm; a greater one is scaled down to it; 0: off",
         .min = 0});
    clip.key("scope", clip_scope,
             {{"block", ClipScope::block}, {"model", ClipScope::model}},
             {.text = "what the norm is taken over: a block or the whole "
                      "model, which needs backprop at every boundary"});
    clip.key("at", clip_at,
             {{"update", ClipPlace::update}, {"replica", ClipPlace::replica}},
             {.text = "of replicas that exchange gradients: what an update "
                      "applies, or what each replica gives the others"});
  });
  describe_correction(fields, *this);
  describe_transforms(fields, *this);
  fields.key("average", average,
             {.text = "decay of an exponential moving average of the weights "
                      "over their updates: evaluations, checkpoints and "
                      "exports have the average, training goes on with the "
                      "weights; 0: they have the weights",
              .min = 0,
              .max = 0.9999999});
  fields.key("tail_average", tail_average,
             {.text = "share of the run's turns, at its end, whose updates are "
                      "averaged alike, in place of a decay: 1 is the mean over "
                      "the whole run (Polyak-Ruppert); before those turns "
                      "evaluations have the weights; 0: off",
              .min = 0,
              .max = 1});
  if (average > 0 && tail_average > 0)
    fields.reject("tail_average",
                  "the weights have one average: leave out average, or this");
}

}  // namespace sluice
