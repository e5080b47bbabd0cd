// Whatever an idx file holds, gzipped or not: sizes that its values have, or a
// UserError.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "experiments/data/files/idx_file.h"
#include "lib/base/error.h"
#include "tests/fuzz/file_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const sluice::FileInMemory file({data, size});
  for (const std::size_t dimensions : {1, 3}) {
    try {
      const sluice::IdxFile read = sluice::read_idx(file.path(), dimensions);
      std::uint64_t count = 1;
      for (const std::int64_t each : read.sizes)
        count *= static_cast<std::uint64_t>(each);
      if (count != read.values.size()) std::abort();
      if (sluice::read_idx_sizes(file.path(), dimensions) != read.sizes)
        std::abort();
    } catch (const sluice::UserError&) {
      continue;  // any damage may be refused
    }
  }
  return 0;
}
