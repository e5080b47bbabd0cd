// Whatever a PNG or JPEG file holds: a whole picture that can be resized, or a
// UserError in one line.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "experiments/data/files/decoded_image.h"
#include "experiments/data/files/orientation.h"
#include "experiments/data/files/resample.h"
#include "lib/base/error.h"

namespace {

/// Most bytes of a picture: a few bytes inflate to any size, in zlib's time.
constexpr std::uint64_t kMost = std::uint64_t{1} << 16;
constexpr std::int64_t kSide = 8;

void resize(const sluice::DecodedImage& image) {
  const sluice::PlaneView plane = {.first = image.rgb.data(),
                                   .height = image.height,
                                   .width = image.width,
                                   .row_stride = 3 * image.width,
                                   .pixel_stride = 3};
  std::vector<std::uint8_t> small(kSide * kSide);
  sluice::resample(plane, kSide, kSide, {.height = kSide, .width = kSide},
                   small.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  sluice::orientation_of({data, size});  // of what is no picture too
  try {
    const sluice::DecodedImage image =
        sluice::decode_image({data, size}, "fuzz", kMost);
    const auto pixels = static_cast<std::uint64_t>(image.height) *
                        static_cast<std::uint64_t>(image.width);
    if (pixels == 0 || pixels > kMost || image.rgb.size() != 3 * pixels)
      std::abort();
    resize(image);
    const int orientation = sluice::orientation_of({data, size});
    if (orientation < 1 || orientation > 8) std::abort();
    if (sluice::upright(image, orientation).rgb.size() != image.rgb.size())
      std::abort();
  } catch (const sluice::UserError& error) {
    // any damage may be refused
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
