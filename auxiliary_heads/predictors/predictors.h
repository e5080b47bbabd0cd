#pragma once

#include <span>

#include "lib/base/table.h"
#include "lib/boundaries/predictor.h"

namespace sluice {

/// How a predictor is configured, for either use; nullptr: it isn't for that.
struct PredictorKind {
  ConfigurePredictor synthesizer = nullptr;
  ConfigurePredictor input_model = nullptr;
};
using PredictorRow = Row<PredictorKind>;

/// "layers", whose kind follows from the features, and what plug-ins add.
std::span<const PredictorRow> predictors();

// Readers of predictors: both read the key `name`, a row of the table, where
// there is more than one row, and then the options of the row.

/// Configures a synthesizer, which predicts the gradient at h_k from h_k.
MakePredictor configure_synthesizer(Fields& options);
/// Configures an input model, which predicts h_k from the model's input.
MakePredictor configure_input_model(Fields& options);

}  // namespace sluice
