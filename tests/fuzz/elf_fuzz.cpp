// Whatever a shared library holds: its tables are read within its bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "experiments/plugins/elf_sizes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string reason =
      sluice::why_cut_short({reinterpret_cast<const char*>(data), size});
  if (size < 64 && reason.empty()) std::abort();
  return 0;
}
