#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// How the tensors of a GPU left its process over one link.
struct DeviceTraffic {
  std::int64_t by_ipc = 0;        ///< stayed on GPUs
  std::int64_t through_host = 0;  ///< copied to the host
  /// Why tensors went through the host that would have stayed; "": none did.
  std::string why_host = {};
  /// Called with the reason when it is found out, on the thread that sends.
  std::function<void(const std::string& why)> tell = nullptr;
};

}  // namespace sluice
