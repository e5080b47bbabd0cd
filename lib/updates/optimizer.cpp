#include "lib/updates/optimizer.h"

#include "lib/base/error.h"

namespace sluice {

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options,
                                    const NamedTensors& parameters);
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options,
                                     const NamedTensors& parameters);
std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options,
                                      const NamedTensors& parameters);

std::span<const OptimizerRow> optimizers() {
  static constexpr OptimizerRow kRows[] = {
      {"adam", "Adam, weight decay added to the gradient", make_adam},
      {"adamw", "Adam with decoupled weight decay", make_adamw},
      {"sgd", "with momentum, Nesterov, weight decay", make_sgd},
  };
  return kRows;
}

Tensors Optimizer::direction(double /*learning_rate*/) const {
  throw UserError(
      "weights = 'predict' goes by the velocity of the optimizer, and this one "
      "has none: set optimizer.name = 'adamw', or 'sgd' with a momentum");
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const NamedTensors& parameters) {
  return find_row(optimizers(), options.name, "optimizer")
      .make(options, parameters);
}

void OptimizerOptions::describe(Fields& fields) {
  fields.key("name", name,
             {.text = "the update rule", .allowed = {"sgd", "adam", "adamw"}});
  learning_rate.describe(fields);
  fields.key("weight_decay", weight_decay,
             {.text = "pull of every weight towards 0", .min = 0});
  if (name == "sgd") {
    fields.key("momentum", momentum,
               {.text = "part of the velocity that stays", .min = 0, .max = 1});
    fields.key("nesterov", nesterov, {.text = "look ahead along the velocity"});
    if (nesterov && momentum == 0)
      fields.reject("nesterov", "needs a momentum above 0");
  } else {
    fields.key("beta1", beta1,
               {.text = "decay of the mean", .min = 0, .max = 0.999999});
    fields.key("beta2", beta2,
               {.text = "decay of the variance", .min = 0, .max = 0.999999});
    fields.key("epsilon", epsilon,
               {.text = "added to the root of the variance", .min = 0});
  }
  fields.list(
      "groups", "parameters that differ",
      [&](Fields& group, std::int64_t index) {
        ParameterGroup values;
        values.weight_decay = weight_decay;
        group.key(
            "match", values.match,
            {.text = "shell patterns of names; the first group that matches "
                     "holds"});
        group.key("weight_decay", values.weight_decay,
                  {.text = "for these parameters", .min = 0});
        group.key("lr_scale", values.lr_scale,
                  {.text = "factor of the learning rate", .min = 0});
        if (index < 0) return;
        if (values.match.empty())
          group.reject("match", "a group needs at least one pattern");
        groups.push_back(values);
      });
  fields.section("clip", "of the gradient's norm", [&](Fields& clip) {
    std::string scope = "block";
    clip.key("norm", clip_norm,
             {.text = "largest norm; 0 clips nothing", .min = 0});
    clip.key("scope", scope,
             {.text = "whose norm; 'model' needs backprop at every boundary",
              .allowed = {"block", "model"}});
    clip_scope = scope == "model" ? ClipScope::model : ClipScope::block;
  });
}

}  // namespace sluice
