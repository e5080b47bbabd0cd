#pragma once

#include <cstddef>

namespace sluice {

/// Memory of the host that CUDA didn't allocate, such as what processes share:
/// once it is pinned, copies between it and a GPU run beside the host. Each
/// function is for a device by its number, which it makes the current one only
/// while it runs; what is pinned is so for all devices.
struct CudaHostMemory {
  /// Pins memory. nullptr: done; else CUDA's reason why not: the system's
  /// limits, or some of it is pinned already.
  const char* (*pin)(int device, std::byte* memory,
                     std::size_t bytes) = nullptr;
  /// The start of what was pinned, and no copy uses it any more. Throws
  /// nothing, in whatever state CUDA is.
  void (*unpin)(int device, std::byte* memory) = nullptr;
};

/// Functions of CUDA; nullptr when the program was built without nvcc. The
/// simulated GPU has its own (tests/simcuda).
const CudaHostMemory* cuda_host_memory();

}  // namespace sluice
