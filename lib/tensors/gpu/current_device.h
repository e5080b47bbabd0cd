#pragma once

#include <optional>

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

namespace sluice {

/// Makes a device the calling thread's current one for the life of this object;
/// does nothing for the CPU. LibTorch's operations set their device by
/// themselves, but its events and its pinned memory take the current one: a
/// thread without this starts CUDA on device 0 too, which takes hundreds of MiB
/// there.
class CurrentDevice {
 public:
  explicit CurrentDevice(const c10::Device& device)
      : guard_(device.is_cpu() ? std::nullopt : std::optional(device)) {}
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  c10::OptionalDeviceGuard guard_;
};

}  // namespace sluice
