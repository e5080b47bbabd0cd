#pragma once

#include <memory>

#include "lib/blocks/layer.h"

namespace sluice {

struct ScriptPart;

/// A layer that does what the part does, with weights and buffers of its own,
/// copies of the part's, under their paths. `drawn`: initialise() draws the
/// weights; else they stay.
std::shared_ptr<Layer> make_script_layer(std::shared_ptr<const ScriptPart> part,
                                         bool drawn);

}  // namespace sluice
