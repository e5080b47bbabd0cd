#include <cstring>

#include <cuda_runtime_api.h>

#include "lib/kernels/cuda_calls.cuh"
#include "lib/kernels/cuda_failure.h"
#include "lib/kernels/cuda_ipc.h"

namespace sluice {
namespace {

using Stream = CudaIpc::Stream;
using Event = CudaIpc::Event;

// The driver packs small allocations into blocks of 2 MiB, and a handle is that
// of the block: so each of ours is whole blocks, and begins one.
constexpr std::size_t kBlock = std::size_t{2} << 20;

// Errors of a call stay behind for LibTorch to find, unless they are taken.
void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  cuda_failure(what, cudaGetErrorString(error));
}

bool has_ipc(int device) {
  int has = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&has, cudaDevAttrIpcEventSupport, device);
  return reason(error) == nullptr && has != 0;
}

DeviceId id_of(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device),
        "the properties of a GPU can't be read");
  DeviceId id;
  static_assert(sizeof properties.uuid.bytes == sizeof id);
  std::memcpy(id.data(), properties.uuid.bytes, sizeof id);
  return id;
}

/// Number of the GPU in this process; -1: CUDA doesn't show it.
int number_of(const DeviceId& id) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "GPUs can't be counted");
  for (int device = 0; device < count; ++device)
    if (id_of(device) == id) return device;
  return -1;
}

bool may_reach(int device, const DeviceId& peer) {
  const int number = number_of(peer);
  if (number < 0 || number == device) return true;
  int can = 0;
  const cudaError_t error = cudaDeviceCanAccessPeer(&can, device, number);
  return reason(error) == nullptr && can != 0;
}

std::byte* allocate(int device, std::size_t bytes) {
  const DeviceScope on(device);
  void* memory = nullptr;
  const std::size_t whole = (bytes + kBlock - 1) / kBlock * kBlock;
  const cudaError_t error = cudaMalloc(&memory, whole);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, "memory for CUDA IPC can't be had");
  return static_cast<std::byte*>(memory);
}

IpcHandle handle_of_memory(int device, std::byte* memory) {
  const DeviceScope on(device);
  cudaIpcMemHandle_t handle;
  check(cudaIpcGetMemHandle(&handle, memory),
        "CUDA gives no handle of memory (cuda_ipc = false goes without)");
  IpcHandle bytes;
  static_assert(sizeof handle == sizeof bytes.bytes);
  std::memcpy(bytes.bytes.data(), &handle, sizeof handle);
  return bytes;
}

Event make_event(int device) {
  const DeviceScope on(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(
            &event, cudaEventInterprocess | cudaEventDisableTiming),
        "an event for CUDA IPC can't be made");
  return event;
}

IpcHandle handle_of_event(int device, Event event) {
  const DeviceScope on(device);
  cudaIpcEventHandle_t handle;
  check(cudaIpcGetEventHandle(&handle, static_cast<cudaEvent_t>(event)),
        "CUDA gives no handle of an event (cuda_ipc = false goes without)");
  IpcHandle bytes;
  static_assert(sizeof handle == sizeof bytes.bytes);
  std::memcpy(bytes.bytes.data(), &handle, sizeof handle);
  return bytes;
}

const char* open_memory(int device, const IpcHandle& handle,
                        std::byte** memory) {
  const DeviceScope on(device);
  cudaIpcMemHandle_t native;
  std::memcpy(&native, handle.bytes.data(), sizeof native);
  void* opened = nullptr;
  const char* why = reason(
      cudaIpcOpenMemHandle(&opened, native, cudaIpcMemLazyEnablePeerAccess));
  *memory = static_cast<std::byte*>(opened);
  return why;
}

const char* open_event(int device, const IpcHandle& handle, Event* event) {
  const DeviceScope on(device);
  cudaIpcEventHandle_t native;
  std::memcpy(&native, handle.bytes.data(), sizeof native);
  cudaEvent_t opened = nullptr;
  const char* why = reason(cudaIpcOpenEventHandle(&opened, native));
  *event = opened;
  return why;
}

void close_memory(int device, std::byte* memory) {
  const DeviceScope on(device);
  reason(cudaIpcCloseMemHandle(memory));
}

void close_event(int device, Event event) {
  const DeviceScope on(device);
  reason(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}

void wait(int device, Stream stream, Event event) {
  const DeviceScope on(device);
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream),
                            static_cast<cudaEvent_t>(event), 0),
        "a stream can't wait for an event of CUDA IPC");
}

void record(int device, Stream stream, Event event) {
  const DeviceScope on(device);
  check(cudaEventRecord(static_cast<cudaEvent_t>(event),
                        static_cast<cudaStream_t>(stream)),
        "an event of CUDA IPC can't be recorded");
}

void copy(int device, Stream stream, std::byte* to, const std::byte* from,
          std::size_t bytes) {
  const DeviceScope on(device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                        static_cast<cudaStream_t>(stream)),
        "a copy for CUDA IPC can't be started");
}

void finish(int device, Stream stream) {
  const DeviceScope on(device);
  reason(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

}  // namespace

const CudaIpc* cuda_ipc() {
  static constexpr CudaIpc kFunctions = {
      has_ipc,          may_reach,    id_of,           allocate,
      handle_of_memory, make_event,   handle_of_event, open_memory,
      open_event,       close_memory, close_event,     wait,
      record,           copy,         finish};
  return &kFunctions;
}

}  // namespace sluice
