#pragma once

#include "lib/boundaries/predictor.h"

namespace sluice {

// Both read the same options; the kind of layers follows from the features.

/// Configures a synthesizer, which predicts the gradient at h_k from h_k.
MakePredictor configure_synthesizer(Fields& options);
/// Configures an input model, which predicts h_k from the model's input.
MakePredictor configure_input_model(Fields& options);

}  // namespace sluice
