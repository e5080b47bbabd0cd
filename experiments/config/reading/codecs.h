#pragma once

#include "lib/base/config.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice {

/// The codecs of a boundary: one name, a table with options, or a table with
/// the one of either direction. Throws UserError.
BoundaryCodecs read_codecs(Fields& fields, const ConfigNode* written);

/// The options that all codecs have beside their own, and what they make of
/// them.
void describe_common_options(Fields& options, CodecWays ways,
                             BoundaryCodecs& codecs);

}  // namespace sluice
