// Fully connected layers. An entry of the list is a linear layer with all that
// follows it, up to the next one; images are flattened in the first.
#include <string>
#include <vector>

#include "modules/model_builder.h"
#include "modules/models.h"

namespace sluice {
namespace {

struct MlpOptions {
  std::vector<std::int64_t> hidden = {256, 256};
  Activation activation = Activation::relu;
  bool batch_norm = false;
  double dropout = 0;

  void describe(Fields& fields) {
    fields.key("hidden", hidden,
               {.text = "widths of the hidden layers", .min = 1});
    fields.key("activation", activation,
               {{"relu", Activation::relu},
                {"leaky_relu", Activation::leaky_relu},
                {"tanh", Activation::tanh}},
               {.text = "activation after each hidden layer"});
    fields.key("batch_norm", batch_norm,
               {.text = "normalise before each activation"});
    fields.key("dropout", dropout,
               {.text = "probability of dropping an output of a hidden layer",
                .min = 0,
                .max = 0.99});
  }
};

Model make_mlp(const MlpOptions& options, const SampleSpec& sample) {
  ModelBuilder builder(sample);
  for (const std::int64_t width : options.hidden) {
    builder.entry().flatten().linear(width);
    if (options.batch_norm) builder.norm();
    builder.activation(options.activation).dropout(options.dropout);
  }
  return builder.entry().flatten().linear(sample.classes).finish();
}

}  // namespace

MakeModel mlp(Fields& fields) {
  MlpOptions options;
  options.describe(fields);
  return
      [options](const SampleSpec& sample) { return make_mlp(options, sample); };
}

}  // namespace sluice
