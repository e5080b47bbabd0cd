// A plug-in with a row for each table: built-in rows once more, as "parts_X".
#include <string>

#include <fmt/format.h>

#include "experiments/plugins/plugin.h"

namespace {
using namespace sluice;

/// The table's row of that name, under the other one.
template <class Make>
Row<Make> copy_of(std::span<const Row<Make>> rows, const char* name) {
  Row<Make> row = find_row(rows, name, "row");
  static std::string copied;  // what is registered is copied
  copied = fmt::format("parts_{}", name);
  row.name = copied;
  return row;
}

/// A layer without weights: its input times a number.
AddLayer times_number(Fields& options) {
  double by = 1;
  options.key("by", by, {.text = "what a scale multiplies by"});
  return [by](ModelBuilder& builder, std::string_view /*where*/) {
    builder.own({.name = "scale",
                 .output = [](const SampleShape& input) { return input; },
                 .flops = [](const SampleShape&) { return 1.0; },
                 .add =
                     [by](Chain& chain, const SampleShape&) {
                       chain.add([by](const at::Tensor& x) { return x * by; });
                     }});
  };
}

/// Multiplies gradients by a number.
struct Factor final : Transform {
  explicit Factor(double by) : by_(by) {}
  void apply(Tensors& gradients, UpdateInfo&) override {
    for (at::Tensor& gradient : gradients)
      if (gradient.defined()) gradient = gradient * by_;
  }
  double by_;
};

MakeCorrection factor(Fields& fields, OptimizerOptions&) {
  double by = 1;
  fields.key("by", by, {.text = "what gradients are multiplied by"});
  return [by](const NamedTensors&) { return std::make_unique<Factor>(by); };
}

}  // namespace

SLUICE_PLUGIN(plugin) {
  plugin.head(copy_of(heads(), "linear"));
  plugin.model(copy_of(models(), "mlp"));
  plugin.layer(copy_of(layer_types(), "linear"));
  plugin.layer({"parts_scale", "times a number", {times_number, kTakesFlat}});
  plugin.loss(copy_of(losses(), "cross_entropy"));
  plugin.data_set(copy_of(data_sets(), "drawn_digits"));
  plugin.optimizer(copy_of(optimizers(), "sgd"));
  plugin.transform({"parts_factor", "gradients times a number", {factor}});
  plugin.correction(copy_of(corrections(), "dynsgd"));
  plugin.policy(copy_of(policies(), "local_loss"));
  PolicyRow delayed = copy_of(policies(), "delayed_gradient");
  delayed.make.page = nullptr;
  plugin.policy(delayed);
  plugin.predictor(copy_of(predictors(), "layers"));
  plugin.weight_view(copy_of(weight_views(), "stash"));
  plugin.replica_policy(copy_of(replica_policies(), "all_reduce"));
  plugin.codec(copy_of(codecs(), "fp16"));
  plugin.schedule(copy_of(schedule_rows(), "gpipe"));
}
