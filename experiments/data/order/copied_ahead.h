#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "lib/blocks/block.h"
#include "lib/blocks/source.h"

namespace sluice {

// Batches for a block on a GPU are copied there before it wants them:
// in_order_of_copies(prefetched(copied_ahead(...), depth)). So as many batches
// more lie on the GPU as are prefetched.

/// The batches of `inner` with their inputs on the device, laid out as the
/// format says. Who asks for one, such as the thread of prefetched(), starts
/// the copy, from pinned memory and in a stream of its own, and doesn't wait
/// for it (Batch::copied). Labels and raw inputs, which go to other blocks too,
/// are in pinned memory. Throws what `inner` does, and c10::Error.
std::unique_ptr<Source> copied_ahead(std::unique_ptr<Source> inner,
                                     const c10::Device& device,
                                     MemoryFormat format);

/// Source of the same batches. What the caller's stream does next waits for
/// their copies; the host doesn't.
std::unique_ptr<Source> in_order_of_copies(std::unique_ptr<Source> copied);

}  // namespace sluice
