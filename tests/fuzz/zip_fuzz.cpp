// Whatever a zip holds: a file that can be unpacked, or a UserError in one
// line.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "experiments/data/files/zip_file.h"
#include "lib/base/error.h"
#include "tests/fuzz/file_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const sluice::FileInMemory file({data, size});
  try {
    const sluice::RawFile zip(file.path());
    const sluice::ZippedFile found = sluice::find_in_zip(zip, "a.npy");
    if (found.bytes > 1200 * size) std::abort();
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(found.bytes));
    sluice::ZipReader(zip, found).read(bytes);
  } catch (const sluice::UserError& error) {
    // any damage may be refused
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
