#pragma once

#include <cuda_runtime_api.h>

// What calls of the CUDA runtime have in common.
namespace sluice {

/// Text of an error; nullptr: none. An error stays behind for LibTorch to find,
/// unless it is taken, as here.
inline const char* reason(cudaError_t error) {
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(error);
}

/// The device is the current one for the life of this. A call without it would
/// start CUDA on device 0 too, which takes hundreds of MiB there.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    cudaGetDevice(&before_);
    if (before_ != device) cudaSetDevice(device);
    device_ = device;
  }
  ~DeviceScope() {
    if (before_ != device_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  int device_ = 0;
};

}  // namespace sluice
