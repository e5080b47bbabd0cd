#include "lib/memory/resident.h"

#include <fstream>
#include <string>

namespace sluice {

ResidentSize resident_size() {
  std::ifstream status("/proc/self/status");
  ResidentSize size;
  for (std::string key; status >> key; status.ignore(256, '\n')) {
    const bool is_peak = key == "VmHWM:";
    if (!is_peak && key != "VmRSS:") continue;
    std::int64_t kib = 0;
    status >> kib;
    (is_peak ? size.peak : size.now) = kib << 10;
  }
  return size;
}

}  // namespace sluice
