// The functions of memory, and of that which processes share.
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tests/simcuda/report.h"
#include "tests/simcuda/runtime/call.h"

namespace sluice::simcuda {
namespace {

/// Memory of CUDA IPC that this process has made or opened, by the address that
/// programs have.
std::map<const std::byte*, std::unique_ptr<SharedMapping>>& mappings() {
  static auto* const all =
      new std::map<const std::byte*, std::unique_ptr<SharedMapping>>;
  return *all;
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

}  // namespace
}  // namespace sluice::simcuda

namespace sim = sluice::simcuda;
using sim::SharedBlock;
using sim::SharedMapping;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return sim::call_outside_captures("cudaMalloc()", [&] {
    const int device = sim::current_device();
    if (!sim::arena_of(device).take(bytes)) return cudaErrorMemoryAllocation;
    auto mapping = SharedMapping::make(SharedBlock::Kind::memory,
                                       sim::host_number(device), bytes);
    std::memset(mapping->bytes(), sim::kPoison, bytes);
    *memory = sim::add_memory(std::move(mapping));
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return sim::call_outside_captures("cudaHostRegister()", [&] {
    if (memory == nullptr || bytes == 0 || flags != cudaHostRegisterPortable)
      return cudaErrorInvalidValue;
    switch (sim::register_memory(static_cast<std::byte*>(memory), bytes)) {
      case sim::Registering::done:
        return cudaSuccess;
      case sim::Registering::overlaps:
        return cudaErrorHostMemoryAlreadyRegistered;
      case sim::Registering::too_much:
        return cudaErrorMemoryAllocation;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return sim::call_outside_captures("cudaHostUnregister()", [&] {
    return sim::unregister_memory(static_cast<std::byte*>(memory))
               ? cudaSuccess
               : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  return sim::call("cudaMemcpyAsync()", [&] {
    return sim::copy_in_stream(to, from, bytes, sim::number_of_stream(stream));
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
  return sim::call_outside_captures("cudaIpcOpenMemHandle()", [&] {
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
  return sim::call_outside_captures("cudaIpcCloseMemHandle()", [&] {
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

}  // extern "C"
