// Whatever a replica sends for a compressed gradient: it is refused, or it is
// read as numbers that encoding can have meant. The first byte says the form,
// the second the number of elements.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "lib/kernels/compressed.h"

namespace sluice {
namespace {

constexpr std::size_t kRow = 5;
constexpr float kThreshold = 0.25F;
constexpr Levels kLevels = {.levels = 3, .bucket = 7};

void require(bool condition) {
  if (!condition) std::abort();
}

void require_same(std::span<const std::byte> bytes, const EncodedBytes& again) {
  require(EncodedBytes(bytes.begin(), bytes.end()) == again);
}

/// Reads the bytes as that form, to their end.
void decode(int form, std::span<const std::byte> bytes,
            std::span<float> values) {
  EncodedReader in(bytes);
  switch (form) {
    case 0:
      decode_sparse(in, values);
      break;
    case 1:
      decode_steps(in, kThreshold, values);
      break;
    case 2:
      decode_halves(in, kRow, values.first(values.size() / kRow * kRow));
      break;
    case 3:
      decode_signs(in, /*is_scaled=*/false, values);
      break;
    case 4:
      decode_signs(in, /*is_scaled=*/true, values);
      break;
    default:
      decode_levels(in, kLevels, values);
  }
  in.finish();
}

/// What has one form only.
void check_again(int form, std::span<const std::byte> bytes,
                 std::span<const float> values) {
  EncodedBytes again;
  if (form == 1) {
    encode_steps(values, kThreshold, again);
    require_same(bytes, again);
  } else if (form == 3) {
    encode_signs(values, /*is_scaled=*/false, again);
    require_same(bytes, again);
  } else if (form == 4) {
    float scale = 0;  // of those that are not 0
    for (const float value : values) {
      if (scale == 0) scale = std::fabs(value);
      require(std::isnan(value) || value == 0 || std::fabs(value) == scale);
    }
  }
}

void check(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  const int form = std::to_integer<int>(bytes[0]) % 6;
  std::vector<float> values(std::to_integer<std::size_t>(bytes[1]));
  try {
    decode(form, bytes.subspan(2), values);
  } catch (const LinkError&) {
    return;
  }
  check_again(form, bytes.subspan(2), values);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  sluice::check(std::as_bytes(std::span(data, size)));
  return 0;
}
