// Whatever a tar file holds: members that lie within it, or a UserError in one
// line.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "experiments/data/files/tar_file.h"
#include "lib/base/error.h"
#include "tests/fuzz/file_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const sluice::FileInMemory file({data, size});
  try {
    const sluice::RawFile tar(file.path());
    for (const sluice::TarMember& member : sluice::members_of(tar))
      if (member.begin > size || member.bytes > size - member.begin)
        std::abort();
  } catch (const sluice::UserError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
