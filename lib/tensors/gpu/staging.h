#pragma once

#include <cstddef>
#include <functional>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "lib/tensors/tensors.h"

namespace sluice {

// Between a GPU and the host's memory. Copies run in streams of their own,
// behind what the current stream has so far, so that they overlap with what
// comes after; the host waits for none of them here. What is no larger than
// kSmallCopy, such as labels, is copied in the current stream instead: that
// takes no longer than the events would by which streams wait for each other.

inline constexpr std::size_t kSmallCopy = std::size_t{64} << 10;  // bytes

/// A copy on its way to the host.
struct HostCopy {
  at::Tensor tensor;  ///< pinned, with the sizes and strides of the original
  /// Blocks until it may be read. Any thread may call it.
  std::function<void()> wait;
  /// Whether it may be read by now, likewise: who polls keeps no core busy.
  std::function<bool()> is_there;
};
/// `tensor` lies on a GPU, dense.
HostCopy copy_to_host(const at::Tensor& tensor);
/// Starts a copy into `host`, of equal shape and type, which lies in registered
/// memory (registered_memory.h). That must stay until the copy is there.
HostCopy copy_to_host(const at::Tensor& tensor, const at::Tensor& host);

/// The tensors on that device; those that are there, and undefined ones, as
/// they are. What the current stream does next waits for the copies. From
/// memory that is not pinned the host waits too. What is pinned stays until it
/// is copied, whoever releases it.
at::Tensor on_device(const at::Tensor& tensor, const c10::Device& device);
Tensors on_device(Tensors tensors, const c10::Device& device);

/// Brings the very tensors there, for the modules that hold them too.
void move_to(const c10::Device& device, const NamedTensors& tensors);

}  // namespace sluice
