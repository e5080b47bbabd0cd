#pragma once

#include "lib/boundaries/predictor.h"

namespace sluice {

// Each reads the same options; the kind of layers follows from the features.

/// From h_k, the gradient at h_k.
MakePredictor configure_synthesizer(Fields& options);
/// From the model's input, the features at the boundary.
MakePredictor configure_input_model(Fields& options);

}  // namespace sluice
