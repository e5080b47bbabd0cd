// The forms that have some bits for each element.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lib/base/error.h"
#include "lib/kernels/compressed.h"
#include "lib/kernels/encoded_values.h"
#include "lib/kernels/philox.h"

namespace sluice {
namespace {

/// How many there are, and their sum.
struct Half {
  double sum = 0;
  std::uint64_t count = 0;

  void add(float value) {
    sum += static_cast<double>(value);
    ++count;
  }
  float mean() const {
    return count == 0 ? 0.0F
                      : static_cast<float>(sum / static_cast<double>(count));
  }
};

bool is_negative(float value) {
  return !(value >= 0);
}

void check_rows(std::size_t elements, std::size_t row) {
  SLUICE_CHECK(elements == 0 || (row > 0 && elements % row == 0),
               "{} elements in rows of {}", elements, row);
}

void append_signs(std::span<const float> values, EncodedBytes& out) {
  BitWriter bits(out);
  for (const float value : values) bits.put(is_negative(value) ? 1 : 0, 1);
  bits.finish();
}

void read_signs(EncodedReader& in, float positive, float negative,
                std::span<float> values) {
  BitReader bits(in, values.size(), 1);
  for (float& value : values) value = bits.next() == 1 ? negative : positive;
  bits.finish();
}

float norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values)
    sum += static_cast<double>(value) * static_cast<double>(value);
  const auto norm = static_cast<float>(std::sqrt(sum));
  // Also where the sum of finite ones is not: all of the bucket says so.
  return std::isfinite(norm) ? norm : std::numeric_limits<float>::quiet_NaN();
}

/// Uniform in [0, 1): the number of that element.
class Chances {
 public:
  explicit Chances(std::uint64_t key) : key_(key) {}
  double of(std::uint64_t element) {
    constexpr std::uint64_t kNumbers = 4;
    if (element % kNumbers == 0 || element / kNumbers != block_) {
      block_ = element / kNumbers;
      numbers_ =
          philox({{static_cast<std::uint32_t>(block_),
                   static_cast<std::uint32_t>(block_ >> kWordBits), 0, 0}},
                 key_);
    }
    return static_cast<double>(numbers_.word[element % kNumbers]) * 0x1p-32;
  }

 private:
  std::uint64_t key_;
  std::uint64_t block_ = std::numeric_limits<std::uint64_t>::max();
  PhiloxWords numbers_ = {};
};

/// With its sign.
std::int64_t level_of(float value, double norm, std::uint32_t levels,
                      double chance) {
  if (!(norm > 0)) return 0;  // NaN too
  const double place = std::fabs(static_cast<double>(value)) / norm * levels;
  const double below = std::floor(place);
  const auto level =
      static_cast<std::int64_t>(below) + (chance < place - below ? 1 : 0);
  // The norm is rounded.
  const std::int64_t reached =
      std::min(level, static_cast<std::int64_t>(levels));
  return value < 0 ? -reached : reached;
}

}  // namespace

void encode_halves(std::span<const float> values, std::size_t row,
                   EncodedBytes& out) {
  check_rows(values.size(), row);
  for (; !values.empty(); values = values.subspan(row)) {
    const auto mine = values.first(row);
    Half positive;
    Half negative;
    for (const float value : mine)
      (is_negative(value) ? negative : positive).add(value);
    append_value(positive.mean(), out);
    append_value(negative.mean(), out);
    append_signs(mine, out);
  }
}

void decode_halves(EncodedReader& in, std::size_t row,
                   std::span<float> values) {
  check_rows(values.size(), row);
  for (; !values.empty(); values = values.subspan(row)) {
    const float positive = in.number();
    const float negative = in.number();
    read_signs(in, positive, negative, values.first(row));
  }
}

void encode_signs(std::span<const float> values, bool is_scaled,
                  EncodedBytes& out) {
  if (is_scaled) {
    Half magnitudes;
    for (const float value : values) magnitudes.add(std::fabs(value));
    append_value(magnitudes.mean(), out);
  }
  append_signs(values, out);
}

void decode_signs(EncodedReader& in, bool is_scaled, std::span<float> values) {
  const float scale = is_scaled ? in.number() : 1.0F;
  read_signs(in, scale, -scale, values);
}

int Levels::width() const {
  return static_cast<int>(std::bit_width(2 * levels));
}

void encode_levels(std::span<const float> values, const Levels& levels,
                   std::uint64_t key, EncodedBytes& out) {
  Chances chances(key);
  for (std::size_t begin = 0; begin < values.size(); begin += levels.bucket) {
    const auto mine =
        values.subspan(begin, std::min(levels.bucket, values.size() - begin));
    const float norm = norm_of(mine);
    append_value(norm, out);
    BitWriter bits(out);
    for (std::size_t i = 0; i < mine.size(); ++i)
      bits.put(static_cast<std::uint32_t>(levels.levels +
                                          level_of(mine[i], norm, levels.levels,
                                                   chances.of(begin + i))),
               levels.width());
    bits.finish();
  }
}

void decode_levels(EncodedReader& in, const Levels& levels,
                   std::span<float> values) {
  const auto steps = static_cast<std::int64_t>(levels.levels);
  for (std::size_t begin = 0; begin < values.size(); begin += levels.bucket) {
    const auto mine =
        values.subspan(begin, std::min(levels.bucket, values.size() - begin));
    const double norm = in.number();
    BitReader bits(in, mine.size(), levels.width());
    for (float& value : mine) {
      const std::int64_t code = bits.next();
      if (code > 2 * steps)
        throw LinkError("a compressed gradient has level {} of {}", code,
                        2 * steps);
      value = static_cast<float>(norm * static_cast<double>(code - steps) /
                                 static_cast<double>(steps));
    }
    bits.finish();
  }
}

}  // namespace sluice
