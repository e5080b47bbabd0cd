// Whatever a .npy file holds: numbers that end with the file, or a UserError in
// one line.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "experiments/data/files/npy_file.h"
#include "lib/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  try {
    const sluice::PackedArray array = sluice::read_npy_header(
        {data, std::min(size, sluice::kMostNpyHead)}, "fuzz", size);
    std::uint64_t bytes = sluice::size_of(array.dtype);
    for (const std::int64_t each : array.sizes) {
      if (each < 0) std::abort();
      bytes *= static_cast<std::uint64_t>(each);
    }
    if (array.begin > size || size - array.begin != bytes) std::abort();
  } catch (const sluice::UserError& error) {
    // any damage may be refused
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
