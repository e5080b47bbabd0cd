#pragma once

#include <cstddef>

#include "lib/base/ipc_device.h"

namespace sluice {

/// What of the CUDA runtime IpcDevice needs, without LibTorch: each function
/// for a device by its number, which it makes the current one only while it
/// runs. They throw InternalError for what CUDA refuses; but those that open
/// something of another process return CUDA's reason, or nullptr.
struct CudaIpc {
  using Stream = void*;  // a cudaStream_t
  using Event = void*;   // a cudaEvent_t

  bool (*has_ipc)(int device) = nullptr;
  /// Whether the device can read memory of that GPU, of itself too. One that
  /// CUDA doesn't show to this process may be in reach: true.
  bool (*may_reach)(int device, const DeviceId& peer) = nullptr;
  DeviceId (*id_of)(int device) = nullptr;

  /// Allocates by cudaMalloc, so that the memory has a handle. nullptr: none is
  /// left.
  std::byte* (*allocate)(int device, std::size_t bytes) = nullptr;
  IpcHandle (*handle_of_memory)(int device, std::byte* memory) = nullptr;
  Event (*make_event)(int device) = nullptr;
  IpcHandle (*handle_of_event)(int device, Event event) = nullptr;

  // Memory and events of another process, on any GPU, opened for that device of
  // this one.
  const char* (*open_memory)(int device, const IpcHandle& handle,
                             std::byte** memory) = nullptr;
  const char* (*open_event)(int device, const IpcHandle& handle,
                            Event* event) = nullptr;
  // close_memory(), close_event() and finish() throw nothing, in whatever state
  // CUDA is.
  void (*close_memory)(int device, std::byte* memory) = nullptr;
  void (*close_event)(int device, Event event) = nullptr;

  void (*wait)(int device, Stream stream, Event event) = nullptr;
  void (*record)(int device, Stream stream, Event event) = nullptr;
  /// Copies between any two places of any devices.
  void (*copy)(int device, Stream stream, std::byte* to, const std::byte* from,
               std::size_t bytes) = nullptr;
  /// Blocks until the stream has done all.
  void (*finish)(int device, Stream stream) = nullptr;
};

/// Functions of CUDA; nullptr when the program was built without nvcc. The
/// simulated GPU has its own (tests/simcuda).
const CudaIpc* cuda_ipc();

}  // namespace sluice
