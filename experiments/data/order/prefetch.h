#pragma once

#include <cstdint>
#include <memory>

#include "lib/blocks/source.h"

namespace sluice {

/// Source of the same batches, of which the next `depth`, every stride-th one,
/// are made by a thread of the source's own while the caller works with batch
/// t. Any t may be asked for next; what was made for another is thrown away.
/// What the inner source throws reaches the caller at the batch that it belongs
/// to. The destructor waits for the batch that is being made. Depth 0 gives
/// `inner` back.
std::unique_ptr<Source> prefetched(std::unique_ptr<Source> inner,
                                   std::int64_t depth, std::int64_t stride = 1);

}  // namespace sluice
