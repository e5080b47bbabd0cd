#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

#include <c10/util/Exception.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/runtime/cuda_runtime_api.h"
#include "tests/simcuda/runtime/shared_block.h"

// What the functions of the simulated CUDA runtime have in common. Like CUDA's,
// they throw nothing and return what is wrong.
namespace sluice::simcuda {

inline cudaError_t failed_with(cudaError_t error) {
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

/// A call that CUDA refuses to a thread that captures, since it may wait.
template <class Work>
cudaError_t call_outside_captures(std::string_view name, const Work& work) {
  return call(name, [&] {
    check_no_capture(name);
    return work();
  });
}

inline std::size_t number_of_stream(cudaStream_t stream) {
  return reinterpret_cast<std::uintptr_t>(stream) - 1;
}

/// Whether the host's devices read each other's memory: SIMCUDA_PEERS=0 in the
/// environment says no.
bool have_peer_access();

// A handle holds the name of a block.

inline SharedName name_in(const char* handle) {
  SharedName name;
  std::memcpy(&name, handle, sizeof name);
  return name;
}

inline void put_name(const SharedMapping& mapping, char* handle) {
  const SharedName name = mapping.name();
  std::memcpy(handle, &name, sizeof name);
}

}  // namespace sluice::simcuda
