#include "auxiliary_heads/predictors/predictors.h"

#include <string>

#include <fmt/ranges.h>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/predictors/kinds.h"
#include "lib/base/added_rows.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// The use that a predictor is made for: two rows, below.
struct Use {
  std::string_view name;     ///< in the key of its weights
  std::string_view section;  ///< of the config; in errors
  bool begins_at_zero;       ///< the last layer, and the prediction
  SampleShape (*input)(const BoundarySite&);  ///< throws UserError
};

SampleShape features_as_input(const BoundarySite& site) {
  if (site.features.empty() || site.features.size() > 3)
    throw UserError(
        "block {}: there is no synthesizer for features of {} dimensions",
        site.block, site.features.size());
  return site.features;
}

[[noreturn]] void refuse(const BoundarySite& site, const char* why) {
  throw UserError(
      "boundary {}: no input model can predict features of shape [{}]: {}; "
      "leave out its unlock",
      site.block, fmt::join(site.features, ", "), why);
}

SampleShape sample_as_input(const BoundarySite& site) {
  if (site.model == nullptr) refuse(site, "the model is unknown");
  const SampleSpec& sample = site.model->sample;
  if (sample.is_text) refuse(site, "the input is a text");
  if (site.model->trains_on_pairs) refuse(site, "the input are pairs");
  if (site.features.size() == 1) return sample.shape;
  if (site.features.size() != 3) refuse(site, "they are a sequence");
  if (sample.shape.size() != 3) refuse(site, "the input is no image");
  return sample.shape;
}

constexpr Use kSynthesizer = {"synthesizer", "synthesizer", true,
                              features_as_input};
/// Input models don't begin at zero: a block that got zeros would learn nothing
/// from them.
constexpr Use kInputModel = {"input_model", "unlock", false, sample_as_input};

PredictorOptions read_options(Fields& fields) {
  PredictorOptions options;
  fields.key("hidden", options.hidden,
             {.text = "layers before the last one", .min = 0, .max = 2});
  fields.key("width", options.width,
             {.text = "width of the hidden layers on flat features and texts; "
                      "on maps they have the features' channels",
              .min = 1,
              .max = 1e6});
  fields.key("label", options.label,
             {.text = "the prediction is made from the labels too (cDNI)"});
  fields.key(
      "random_bias", options.random_bias,
      {.text =
           "draw a synthesizer's last bias at random, as in published code; by "
           "default it begins at zero, as the last weights do, so that the "
           "first signal is zero. An input model's is always drawn"});
  return options;
}

/// Zeroes the last layer; with random_bias, as published code has it, only its
/// weights.
void zero_last_layer(Predictor& predictor, const PredictorOptions& options) {
  for (const auto& parameter : predictor.named_parameters()) {
    const std::string& name = parameter.key();
    // Without hidden layers the label's matrix is part of the last one.
    if (name == "last.weight" ||
        (name == "last.bias" && !options.random_bias) ||
        (name == "label.weight" && options.hidden == 0))
      parameter.value().detach().zero_();
  }
}

MakePredictor configure(Fields& fields, const Use& use) {
  return [use, options = read_options(fields)](const BoundarySite& site) {
    const PredictorSpec spec = {.section = use.section,
                                .input = use.input(site),
                                .output = site.features,
                                .classes = site.classes,
                                .options = options};
    auto predictor =
        spec.output.size() == 3 ? conv_predictor(spec) : linear_predictor(spec);
    initialise_parameters(*predictor, head_key(site, use.name));
    if (use.begins_at_zero) zero_last_layer(*predictor, options);
    return predictor;
  };
}

MakePredictor layers_as_synthesizer(Fields& options) {
  return configure(options, kSynthesizer);
}

MakePredictor layers_as_input_model(Fields& options) {
  return configure(options, kInputModel);
}

/// No key without a choice: configs stay as they were before plug-ins could add
/// predictors.
MakePredictor configure_one(Fields& options,
                            ConfigurePredictor PredictorKind::*use) {
  Names<ConfigurePredictor> names;
  for (const PredictorRow& row : predictors())
    if (row.make.*use != nullptr)
      names.push_back({std::string(row.name), row.make.*use});
  ConfigurePredictor chosen = names.front().value;
  if (names.size() > 1 || options.has("name"))
    options.key("name", chosen, names,
                {.text = "what predicts: layers, those of Sluice, or what a "
                         "plug-in has added",
                 .decides = true});
  return chosen(options);
}

}  // namespace

std::span<const PredictorRow> predictors() {
  static constexpr PredictorRow kRows[] = {
      {"layers",
       "linear layers, on maps 5x5 convolutions",
       {layers_as_synthesizer, layers_as_input_model}},
  };
  return with_added<PredictorKind>(kRows);
}

MakePredictor configure_synthesizer(Fields& options) {
  return configure_one(options, &PredictorKind::synthesizer);
}

MakePredictor configure_input_model(Fields& options) {
  return configure_one(options, &PredictorKind::input_model);
}

}  // namespace sluice
