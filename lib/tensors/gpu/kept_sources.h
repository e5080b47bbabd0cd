#pragma once

#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace sluice {

/// Tells LibTorch's allocator of pinned memory that work of the stream reads
/// the tensor, so that its memory isn't used again before that is done. False:
/// it doesn't know the memory, though a GPU reads it beside the host; it was
/// registered (registered_memory.h), or is a part of a larger piece. True also
/// for memory that a GPU doesn't read so.
bool allocator_keeps(const at::Tensor& tensor, const c10::Stream& stream);

/// Keeps the tensor until the event is done: that is looked at when this thread
/// keeps the next one, and waited for at the thread's end.
void keep_until(std::shared_ptr<c10::Event> done, at::Tensor tensor);

}  // namespace sluice
