#pragma once

#include <cstdint>

namespace sluice {

/// How the tensors of a GPU left its process over one link.
struct DeviceTraffic {
  std::int64_t by_ipc = 0;        ///< stayed on GPUs
  std::int64_t through_host = 0;  ///< copied to the host
};

}  // namespace sluice
