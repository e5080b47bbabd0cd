#pragma once

#include <c10/core/Device.h>

#include "lib/base/buffer.h"

namespace sluice {

/// Pinned memory, from which copies to a GPU overlap with the rest. Taking some
/// never waits for CUDA, which may need milliseconds for it, since that happens
/// in the event loop of a link: a thread of its own, whose current device is
/// `device`, has a few pieces of each size ready that was asked for before (a
/// power of two). The first of a size, and those that are asked for faster than
/// it can follow, come from `otherwise`: a copy from them makes the host wait.
///
/// Each buffer is a piece of memory of its own, and must stay so: LibTorch's
/// allocator finds the copies that still read it by where it begins, so of one
/// that is cut into several it would give memory to others too early.
BufferSource pinned_buffers(const c10::Device& device,
                            BufferSource otherwise = allocate_buffer);

}  // namespace sluice
