// Whatever a safetensors file holds: tensors that lie in it one after the
// other, or a UserError.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "lib/base/error.h"
#include "lib/checkpoints/safetensors_header.h"
#include "tests/fuzz/file_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const sluice::FileInMemory file({data, size});
  std::ifstream stream(file.path(), std::ios::binary);
  try {
    std::uint64_t before = 0;
    for (const sluice::SafetensorsEntry& entry :
         sluice::read_safetensors_header(stream, "fuzz", size)) {
      std::uint64_t bytes = sluice::size_of(entry.dtype);
      for (const std::int64_t each : entry.sizes)
        bytes *= static_cast<std::uint64_t>(each);
      const bool fits = entry.begin >= before && entry.end <= size &&
                        entry.end - entry.begin == bytes;
      if (!fits) std::abort();
      before = entry.end;
    }
  } catch (const sluice::UserError&) {
    return 0;  // any damage may be refused
  }
  return 0;
}
