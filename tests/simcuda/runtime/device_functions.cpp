// The functions of devices and streams, and errors.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tests/simcuda/runtime/call.h"

namespace sluice::simcuda {
namespace {

bool is_visible(int device) {
  return device >= 0 && device < visible_devices();
}

}  // namespace

bool have_peer_access() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): it is set before
  const char* const text = std::getenv("SIMCUDA_PEERS");
  return text == nullptr || std::string_view(text) != "0";
}

}  // namespace sluice::simcuda

namespace sim = sluice::simcuda;

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
    case cudaErrorHostMemoryAlreadyRegistered:
      return "part or all of the requested memory range is already mapped";
    case cudaErrorHostMemoryNotRegistered:
      return "pointer does not correspond to a registered memory region";
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

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return sim::call("cudaStreamSynchronize()", [&] {
    sim::count_wait(&sim::Counts::waits_for_streams);
    sim::host_reaches(sim::machine().streams.at(sim::number_of_stream(stream)));
    return cudaSuccess;
  });
}

}  // extern "C"
