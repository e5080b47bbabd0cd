#include "lib/tensors/gpu/staging.h"

#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/gpu/events.h"
#include "lib/tensors/gpu/kept_sources.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

bool is_small(const at::Tensor& tensor) {
  return tensor.nbytes() <= kSmallCopy;
}

/// Copies in a stream of its own, and records `done` behind the copy.
void copy_beside(const at::Tensor& tensor, const at::Tensor& host,
                 const std::shared_ptr<c10::Event>& done) {
  const c10::Stream copies =
      copies_of_this_thread(tensor.device(), CopyWay::leaving);
  order(computing_on(tensor.device()), copies);
  {
    const c10::StreamGuard on(copies);
    host.copy_(tensor, /*non_blocking=*/true);
  }
  // The original's memory is not given to others before the copy is done.
  tensor.record_stream(copies);
  done->record(copies);
}

}  // namespace

HostCopy copy_to_host(const at::Tensor& tensor, const at::Tensor& host) {
  const auto done = pooled_event(tensor.device());
  if (is_small(tensor)) {
    host.copy_(tensor, /*non_blocking=*/true);
    done->record(computing_on(tensor.device()));
  } else {
    copy_beside(tensor, host, done);
  }
  // The thread that waits, or asks, has another current device.
  return {.tensor = host,
          .wait =
              [done, device = tensor.device()] {
                const CurrentDevice on(device);
                done->synchronize();
              },
          .is_there =
              [done, device = tensor.device()] {
                const CurrentDevice on(device);
                return done->query();
              }};
}

HostCopy copy_to_host(const at::Tensor& tensor) {
  return copy_to_host(
      tensor,
      at::empty_strided(tensor.sizes(), tensor.strides(),
                        tensor.options().device(at::kCPU).pinned_memory(true)));
}

namespace {

/// A copy with the strides of the original: a repeated element is copied once.
at::Tensor copied_to(const c10::Device& device, const at::Tensor& tensor,
                     bool non_blocking) {
  at::Tensor once = tensor;
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.stride(i) == 0 && tensor.size(i) > 1)
      once = once.narrow(i, 0, 1);
  return once.to(device, non_blocking).expand(tensor.sizes());
}

}  // namespace

at::Tensor on_device(const at::Tensor& tensor, const c10::Device& device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  if (device.is_cpu()) return copied_to(device, tensor, false);
  const c10::Stream computing = computing_on(device);
  // Only from pinned memory: with other memory the host would wait for what the
  // stream computes before.
  if (is_small(tensor) && tensor.is_cpu() && tensor.is_pinned() &&
      allocator_keeps(tensor, computing))
    return copied_to(device, tensor, /*non_blocking=*/true);
  const c10::Stream copies = copies_of_this_thread(device, CopyWay::arriving);
  at::Tensor copy;
  {
    const c10::StreamGuard on(copies);
    copy = copied_to(device, tensor, /*non_blocking=*/true);
  }
  const auto arrived = pooled_event(device);
  arrived->record(copies);
  arrived->block(computing);
  if (!allocator_keeps(tensor, copies)) keep_until(arrived, tensor);
  // Allocated in the one stream, used and released in the other.
  copy.record_stream(computing);
  return copy;
}

Tensors on_device(Tensors tensors, const c10::Device& device) {
  for (at::Tensor& tensor : tensors) tensor = on_device(tensor, device);
  return tensors;
}

void move_to(const c10::Device& device, const NamedTensors& tensors) {
  for (auto [name, tensor] : tensors)
    if (tensor.device() != device)
      tensor.set_data(tensor.variable_data().to(device));
}

}  // namespace sluice
