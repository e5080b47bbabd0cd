#pragma once

#include <cstdint>

namespace sluice {

/// The resident memory of this process in bytes, as the kernel counts it; 0
/// where there is no /proc.
struct ResidentSize {
  std::int64_t now = 0;
  std::int64_t peak = 0;  ///< the most since the process began
};
ResidentSize resident_size();

}  // namespace sluice
