// Four bits for an element: a sign and three bits of an exponent, without a
// mantissa (E3M0), as streaming DiLoCo sends movements (Douillard et al. 2025,
// arXiv:2501.18512). The numbers are 0 and 2^-6 to 1, each of the
// largest magnitude of a bucket, for which the paper states no unit; an element
// becomes the nearest one.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/error.h"
#include "lib/kernels/encoded_values.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_e3m0(Fields& fields);

namespace {

constexpr std::size_t kBits = 4;
constexpr std::uint8_t kSign = 8;   // bit of a code
constexpr int kLeastExponent = -6;  // of code 1; that of code 7 is 0

/// The code of a magnitude, in parts of the largest one.
std::uint8_t code_of(float part) {
  constexpr float kHalfOfLeast = 1.0F / 128;
  constexpr float kHalfWay = 0.75F;  // to the next power, of a number below 1
  if (part < kHalfOfLeast) return 0;
  int exponent = 0;
  const float mantissa = std::frexp(part, &exponent);  // 0.5 to 1
  if (mantissa < kHalfWay) --exponent;
  return static_cast<std::uint8_t>(std::clamp(exponent, kLeastExponent, 0) -
                                   kLeastExponent + 1);
}

float part_of_code(std::uint8_t code) {
  const auto magnitude = static_cast<std::uint8_t>(code & (kSign - 1U));
  if (magnitude == 0) return 0;
  const float part = std::ldexp(1.0F, magnitude - 1 + kLeastExponent);
  return (code & kSign) != 0 ? -part : part;
}

/// Buckets: their largest magnitude, then a half byte for each element, the
/// first one in the lower half; the last byte ends in zeros.
class FourBits final : public LineCompressor {
 public:
  explicit FourBits(std::size_t bucket) : bucket_(bucket) {}

  void encode(std::span<const float> values, const LinePlace& /*place*/,
              EncodedBytes& out) override {
    for (std::size_t begin = 0; begin < values.size(); begin += bucket_)
      encode(values.subspan(begin, size_at(begin, values.size())), out);
  }

  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    for (std::size_t begin = 0; begin < values.size(); begin += bucket_)
      decode(in, values.subspan(begin, size_at(begin, values.size())));
  }

 private:
  std::size_t size_at(std::size_t begin, std::size_t elements) const {
    return std::min(bucket_, elements - begin);
  }

  static void encode(std::span<const float> values, EncodedBytes& out) {
    float most = 0;
    for (const float value : values) most = std::max(most, std::fabs(value));
    append_value(most, out);
    const std::size_t begin = out.size();
    out.resize(begin + (values.size() + 1) / 2);
    for (std::size_t i = 0; i < values.size() && most > 0; ++i) {
      std::uint8_t code = code_of(std::fabs(values[i]) / most);
      if (code > 0 && values[i] < 0) code |= kSign;
      out[begin + i / 2] |=
          static_cast<std::byte>(code << (i % 2 == 0 ? 0U : kBits));
    }
  }

  static void decode(EncodedReader& in, std::span<float> values) {
    const float most = in.number();
    if (!(most >= 0) || !std::isfinite(most))
      throw LinkError("a compressed gradient has {} as a largest magnitude",
                      most);
    const auto bytes = in.take((values.size() + 1) / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto both = std::to_integer<std::uint8_t>(bytes[i / 2]);
      values[i] = most * part_of_code(static_cast<std::uint8_t>(
                             i % 2 == 0 ? both & 0xFU : both >> kBits));
    }
  }

  const std::size_t bucket_;
};

double bytes_in(double bucket, double elements) {
  const double whole = std::floor(elements / bucket);
  const double rest = elements - whole * bucket;
  return whole * (4 + std::ceil(bucket / 2)) +
         (rest > 0 ? 4 + std::ceil(rest / 2) : 0);
}

}  // namespace

CompressorKind compress_e3m0(Fields& fields) {
  std::int64_t bucket = 512;
  bool has_error_feedback = false;
  fields.key("bucket", bucket,
             {.text = "elements that share a largest magnitude, of which each "
                      "becomes a power of two, down to 1 / 64, or 0",
              .unit = "elements",
              .min = 1,
              .max = 1e9});
  read_error_feedback(fields, has_error_feedback);
  return gathered(
      [bucket](const NamedTensors&, const ReplicaSite&) {
        return std::make_unique<FourBits>(static_cast<std::size_t>(bucket));
      },
      [bucket](double elements) {
        return bytes_in(static_cast<double>(bucket), elements);
      },
      has_error_feedback);
}

}  // namespace sluice
