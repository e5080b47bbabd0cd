#pragma once

#include "auxiliary_heads/synthesizers/synthesizers.h"
#include "lib/boundaries/input_model.h"

namespace sluice {

/// Reads the options, which are those of synthesizers; the kind of input model
/// follows from the features.
MakeInputModel configure_input_model(Fields& options);

}  // namespace sluice
