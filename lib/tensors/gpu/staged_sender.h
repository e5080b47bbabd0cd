#pragma once

#include <memory>

#include "lib/base/buffer.h"
#include "lib/base/device_traffic.h"
#include "lib/base/messages/channel.h"

namespace sluice {

/// The tensor with its bytes on the host, where a copy may still be under way
/// (wait_ready); one that lies there is given back as it is.
TensorView staged(TensorView tensor);

/// Tensor in memory of `slots`, which is registered (registered_memory.h) and
/// no GPU's: so the channel sends it where it lies. In other pinned memory
/// where that gives a buffer without data, and what is no larger than
/// kSmallCopy (staging.h). `slots` may be empty.
TensorView staged(TensorView tensor, const BufferSource& slots);

/// A channel that is given tensors on a GPU and carries bytes of the host: they
/// are copied to pinned memory as they are sent, by staged(), on the thread
/// that sends; departing_sender() (lib/base) around the channel waits for the
/// copies on another one. `traffic` counts them; it may be nullptr.
std::unique_ptr<Sender> staged_sender(
    std::unique_ptr<Sender> channel,
    std::shared_ptr<DeviceTraffic> traffic = nullptr,
    BufferSource slots = nullptr);

}  // namespace sluice
