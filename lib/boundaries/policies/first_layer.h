#pragma once

#include <memory>

#include "lib/boundaries/boundary.h"

namespace sluice {

/// An upper end that answers copies of the weights of its block's first layer,
/// in the order of the layer's parameters: for a head that follows them (MAN).
std::unique_ptr<Upper> make_first_layer_upper(const BoundarySite& site);

}  // namespace sluice
