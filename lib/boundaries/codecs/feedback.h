#pragma once

#include <memory>

#include "lib/boundaries/codecs/codec.h"

namespace sluice {

/// The sender of a direction that adds what it has not sent of a tensor to the
/// next one, row by row: so all that was sent and what is held add up to all
/// tensors. A row is a place in the batch; a micro-batch has rows of its own,
/// and rows that a smaller batch lacks keep theirs. What is held of a tensor
/// whose rows have another shape is forgotten.
///
/// `codec` is memoryless, and changes nothing of what it has decoded.
std::unique_ptr<CodecEnd> with_feedback(std::shared_ptr<const Codec> codec);

}  // namespace sluice
