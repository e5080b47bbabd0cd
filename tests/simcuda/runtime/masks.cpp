// The kernels of masks in a build without nvcc: the CPU's loops, over the bytes
// behind the addresses of a device, a launch each.
#include "lib/kernels/masks.h"

#include <cstddef>
#include <cstdint>

#include <c10/util/Exception.h>

#include "tests/simcuda/machine.h"

namespace sluice {
namespace {

using Stream = MaskKernels::Stream;

/// Starts a kernel that writes there; the bytes that it may touch.
float* start_kernel(float* mask, Stream stream) {
  simcuda::Allocation* const memory = simcuda::find_allocation(mask);
  TORCH_CHECK(memory != nullptr,
              "simulated GPU: a kernel writes where there is no memory");
  const std::size_t number = reinterpret_cast<std::uintptr_t>(stream) - 1;
  const simcuda::Use use = simcuda::start(number, "the kernel of a mask");
  ++simcuda::machine().counts.launches;
  simcuda::write(*memory, use);
  return reinterpret_cast<float*>(simcuda::bytes_at(*memory, mask));
}

void fill_there(const MaskRule& rule, std::int64_t first, std::int64_t count,
                float* mask, Stream stream) {
  const simcuda::Lock lock(simcuda::machine().mutex);
  cpu_mask_kernels().fill(rule, first, count, start_kernel(mask, stream),
                          nullptr);
}

void fill_channels_last_there(const MaskRule& rule, const ChannelsLast& shape,
                              float* mask, Stream stream) {
  const simcuda::Lock lock(simcuda::machine().mutex);
  cpu_mask_kernels().fill_channels_last(rule, shape, start_kernel(mask, stream),
                                        nullptr);
}

bool reaches_there(const float* mask) {
  const simcuda::Lock lock(simcuda::machine().mutex);
  return simcuda::find_allocation(mask) != nullptr;
}

}  // namespace

const MaskKernels* cuda_mask_kernels() {
  static constexpr MaskKernels kKernels = {fill_there, fill_channels_last_there,
                                           reaches_there};
  return &kKernels;
}

}  // namespace sluice
