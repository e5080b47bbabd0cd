// The functions of the simulated CUDA runtime. Like CUDA's, they throw nothing
// and return what is wrong.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/report.h"
#include "tests/simcuda/runtime/cuda_runtime_api.h"
#include "tests/simcuda/runtime/shared_block.h"

/// An event of CUDA IPC, made here or opened.
struct CUevent_st {
  std::unique_ptr<sluice::simcuda::SharedMapping> mapping;
  int device = 0;  ///< on which it was made or opened
};

namespace sluice::simcuda {
namespace {

/// Memory of CUDA IPC that this process has made or opened, by the address that
/// programs have.
std::map<const std::byte*, std::unique_ptr<SharedMapping>>& mappings() {
  static auto* const all =
      new std::map<const std::byte*, std::unique_ptr<SharedMapping>>;
  return *all;
}

cudaError_t failed_with(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

/// What a call does, on the current device. Nothing on one that has failed.
template <class Work>
cudaError_t call(std::string_view name, const Work& work) {
  const Lock lock(machine().mutex);
  try {
    check_works(current_device());
    call_on_current(name);
    return failed_with(work());
  } catch (const c10::Error&) {
    return failed_with(cudaErrorIllegalAddress);
  }
}

bool is_visible(int device) {
  return device >= 0 && device < visible_devices();
}

std::size_t number_of_stream(cudaStream_t stream) {
  return reinterpret_cast<std::uintptr_t>(stream) - 1;
}

/// SIMCUDA_PEERS=0: no device reads another one's memory.
bool have_peer_access() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it later
  const char* const text = std::getenv("SIMCUDA_PEERS");
  return text == nullptr || std::string_view(text) != "0";
}

Arena& arena_of(int device) {
  return machine().arenas.at(static_cast<std::size_t>(device));
}

/// The device has it from now on.
std::byte* add_memory(std::unique_ptr<SharedMapping> mapping) {
  std::byte* const data = mapping->hidden();
  const int device = current_device();
  machine().allocations[data] = {.data = data,
                                 .bytes = mapping->block().bytes,
                                 .device = device,
                                 .stream = number_of(device, 0),
                                 .shared = &mapping->block(),
                                 .mapped = mapping->bytes()};
  mappings()[data] = std::move(mapping);
  return data;
}

bool is_open(const SharedName& name) {
  for (const auto& [data, mapping] : mappings())
    if (mapping->is_mapped_here() && mapping->block().number == name.number)
      return true;
  return false;
}

/// The allocation with so many bytes from there on; nullptr: there is none.
Allocation* memory_at(const void* address, std::size_t bytes) {
  Allocation* const found = find_allocation(address);
  if (found == nullptr) return nullptr;
  const auto offset = static_cast<std::size_t>(
      static_cast<const std::byte*>(address) - found->data);
  return bytes <= found->bytes - offset ? found : nullptr;
}

void check_owner(const Allocation& allocation) {
  if (allocation.shared != nullptr && !is_alive(*allocation.shared))
    report(
        "a copy uses memory of a process that has ended, which takes it along");
}

cudaError_t copy_in_stream(void* to, const void* from, std::size_t bytes,
                           std::size_t stream) {
  Allocation* const source = memory_at(from, bytes);
  Allocation* const target = memory_at(to, bytes);
  if (source == nullptr || target == nullptr) return cudaErrorInvalidValue;
  check_owner(*source);
  check_owner(*target);
  const Use use = start(stream, "a copy of CUDA IPC");
  ++machine().counts.between_devices;
  read(*source, use);
  write(*target, use);
  std::memcpy(bytes_at(*target, to), bytes_at(*source, from), bytes);
  return cudaSuccess;
}

/// Closing doesn't wait for what still uses the memory.
void check_closed(Allocation& allocation) {
  const UsesOfAll uses(allocation);
  for (const auto& [stream, use] : allocation.read)
    if (stream < kStreamsOfProcess && !is_before(use, machine().host))
      report(fmt::format("memory is closed while {} in {} may still use it",
                         use.operation, name_of(stream)));
}

SharedName name_in(const char* handle) {
  SharedName name;
  std::memcpy(&name, handle, sizeof name);
  return name;
}

void put_name(const SharedMapping& mapping, char* handle) {
  const SharedName name = mapping.name();
  std::memcpy(handle, &name, sizeof name);
}

}  // namespace
}  // namespace sluice::simcuda

namespace sim = sluice::simcuda;
using sim::SharedBlock;
using sim::SharedMapping;

extern "C" {

cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(std::exchange(sim::last_error(), 0));
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorDeviceUninitialized:
      return "invalid device context";
    case cudaErrorAlreadyMapped:
      return "resource already mapped";
    case cudaErrorPeerAccessUnsupported:
      return "peer access is not supported between these two devices";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
  }
  return "unknown error";
}

cudaError_t cudaGetDevice(int* device) {
  *device = sim::current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!sim::is_visible(device)) return sim::failed_with(cudaErrorInvalidDevice);
  sim::current_device() = device;
  return sim::call("cudaSetDevice()", [] { return cudaSuccess; });
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = sim::visible_devices();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!sim::is_visible(device)) return sim::failed_with(cudaErrorInvalidDevice);
  properties->uuid = {};
  const std::string text =
      fmt::format("simulated GPU {}", sim::host_number(device));
  std::memcpy(properties->uuid.bytes, text.data(),
              std::min(text.size(), sizeof properties->uuid.bytes));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/,
                                   int device) {
  if (!sim::is_visible(device)) return sim::failed_with(cudaErrorInvalidDevice);
  *value = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!sim::is_visible(device) || !sim::is_visible(peer))
    return sim::failed_with(cudaErrorInvalidDevice);
  *can = device != peer && sim::have_peer_access() ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return sim::call("cudaMalloc()", [&] {
    const int device = sim::current_device();
    if (!sim::arena_of(device).take(bytes)) return cudaErrorMemoryAllocation;
    auto mapping = SharedMapping::make(SharedBlock::Kind::memory,
                                       sim::host_number(device), bytes);
    std::memset(mapping->bytes(), sim::kPoison, bytes);
    *memory = sim::add_memory(std::move(mapping));
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  return sim::call("cudaMemcpyAsync()", [&] {
    return sim::copy_in_stream(to, from, bytes, sim::number_of_stream(stream));
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return sim::call("cudaStreamSynchronize()", [&] {
    sim::count_wait(&sim::Counts::waits_for_streams);
    sim::host_reaches(sim::machine().streams.at(sim::number_of_stream(stream)));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return sim::call("cudaEventCreateWithFlags()", [&] {
    // The only ones that another process can open.
    if (flags != (cudaEventInterprocess | cudaEventDisableTiming))
      return cudaErrorInvalidValue;
    const int device = sim::current_device();
    *event = new CUevent_st{SharedMapping::make(SharedBlock::Kind::event,
                                                sim::host_number(device), 0),
                            device};
    ++sim::machine().counts.events_made;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return sim::call("cudaEventDestroy()", [&] {
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return sim::call("cudaEventRecord()", [&] {
    const std::size_t number = sim::number_of_stream(stream);
    if (event->device != sim::device_of(number))
      return cudaErrorInvalidResourceHandle;
    ++sim::machine().counts.events_recorded;
    sim::start(number, "record");
    SharedBlock& block = event->mapping->block();
    const std::lock_guard lock(block.lock);
    sim::write_clock(sim::machine().streams.at(number), block.recorded);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned /*flags*/) {
  return sim::call("cudaStreamWaitEvent()", [&] {
    ++sim::machine().counts.waits_of_streams;
    SharedBlock& block = event->mapping->block();
    const std::lock_guard lock(block.lock);
    sim::join(sim::machine().streams.at(sim::number_of_stream(stream)),
              sim::read_clock(block.recorded));
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return sim::call("cudaIpcGetMemHandle()", [&] {
    const auto found = sim::mappings().find(static_cast<std::byte*>(memory));
    if (found == sim::mappings().end() || !found->second->is_own())
      return cudaErrorInvalidValue;
    sim::put_name(*found->second, handle->reserved);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                 unsigned flags) {
  return sim::call("cudaIpcOpenMemHandle()", [&] {
    if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    const sim::SharedName name = sim::name_in(handle.reserved);
    auto mapping = SharedMapping::open(name, SharedBlock::Kind::memory);
    if (!mapping) return cudaErrorInvalidResourceHandle;
    if (mapping->is_own()) return cudaErrorDeviceUninitialized;
    if (sim::is_open(name)) return cudaErrorAlreadyMapped;
    if (mapping->block().device != sim::host_number(sim::current_device()) &&
        !sim::have_peer_access())
      return cudaErrorPeerAccessUnsupported;
    *memory = sim::add_memory(std::move(mapping));
    return cudaSuccess;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return sim::call("cudaIpcCloseMemHandle()", [&] {
    const auto found = sim::mappings().find(static_cast<std::byte*>(memory));
    if (found == sim::mappings().end() || found->second->is_own())
      return cudaErrorInvalidValue;
    auto& allocations = sim::machine().allocations;
    sim::check_closed(allocations.at(found->first));
    allocations.erase(found->first);
    sim::mappings().erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle,
                                  cudaEvent_t event) {
  return sim::call("cudaIpcGetEventHandle()", [&] {
    if (!event->mapping->is_own()) return cudaErrorInvalidResourceHandle;
    sim::put_name(*event->mapping, handle->reserved);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                   cudaIpcEventHandle_t handle) {
  return sim::call("cudaIpcOpenEventHandle()", [&] {
    auto mapping = SharedMapping::open(sim::name_in(handle.reserved),
                                       SharedBlock::Kind::event);
    if (!mapping) return cudaErrorInvalidResourceHandle;
    if (mapping->is_own()) return cudaErrorDeviceUninitialized;
    *event = new CUevent_st{std::move(mapping), sim::current_device()};
    return cudaSuccess;
  });
}

}  // extern "C"
