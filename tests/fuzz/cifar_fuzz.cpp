// Whatever a file of CIFAR holds, gzipped or not: whole images with labels in
// their range, or a UserError.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "experiments/data/files/cifar_file.h"
#include "lib/base/error.h"
#include "tests/fuzz/file_in_memory.h"

namespace {

/// A few thousand bytes may inflate to millions, all of them zlib's work and
/// the fuzzer's time.
bool is_long_gzip(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLong = 256;
  return size > kLong && data[0] == 0x1f && data[1] == 0x8b;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  if (is_long_gzip(data, size)) return 0;
  const sluice::FileInMemory file({data, size});
  for (const sluice::CifarFormat& format :
       {sluice::CifarFormat{1, 0, 10}, sluice::CifarFormat{2, 1, 100}}) {
    try {
      const sluice::Images images = sluice::read_cifar({file.path()}, format);
      if (images.pixels.size() != 3072 * images.labels.size()) std::abort();
      for (const std::uint8_t label : images.labels)
        if (label >= format.classes) std::abort();
      if (sluice::cifar_records(file.path(), format) != images.labels.size())
        std::abort();
    } catch (const sluice::UserError&) {
      continue;  // any damage may be refused
    }
  }
  return 0;
}
