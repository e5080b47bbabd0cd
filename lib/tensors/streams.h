#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace sluice {

// Streams of a GPU, through LibTorch's interface that knows no CUDA.

/// Whether copies leave the device or come there.
enum class CopyWay { leaving, arriving };

/// The stream of copies, one for each thread, device and way, beside the
/// current stream: what arrives doesn't wait for what is computed before
/// something leaves; and LibTorch's allocator keeps memory for each stream
/// apart.
c10::Stream copies_of_this_thread(const c10::Device& device, CopyWay way);

/// The stream that computes on the device: the current one.
c10::Stream computing_on(const c10::Device& device);

/// `later` goes on when what `earlier` has now is done. They may be of
/// different devices.
void order(const c10::Stream& earlier, const c10::Stream& later);

}  // namespace sluice
