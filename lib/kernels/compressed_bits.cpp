// The forms that have some bits for each element.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "lib/base/error.h"
#include "lib/kernels/compressed.h"
#include "lib/kernels/encoded_values.h"
#include "lib/kernels/philox.h"

namespace sluice {
namespace {

/// Elements of one sign: their number and their sum.
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

/// Writes which elements are 0: a bit has no sign for them.
void append_zeros(std::span<const float> values, EncodedBytes& out) {
  const auto zeros =
      static_cast<std::size_t>(std::count(values.begin(), values.end(), 0.0F));
  append_value(static_cast<std::uint32_t>(zeros), out);
  if (zeros == 0) return;
  BitWriter bits(out);
  for (const float value : values) bits.put(value == 0 ? 1 : 0, 1);
  bits.finish();
}

/// Reads which of so many elements are 0, one after the other.
class ZerosReader {
 public:
  ZerosReader(EncodedReader& in, std::size_t elements)
      : zeros_(in.word()), others_(elements - std::min(zeros_, elements)) {
    if (zeros_ > elements)
      throw LinkError("a compressed gradient has {} zeros in {} elements",
                      zeros_, elements);
    if (zeros_ > 0) bits_.emplace(in, elements, 1);
  }

  /// Elements that are not 0.
  std::size_t others() const { return others_; }
  bool next() {
    if (!bits_) return false;
    const bool is_zero = bits_->next() == 1;
    ++(is_zero ? zeros_read_ : others_read_);
    if (zeros_read_ > zeros_ || others_read_ > others_)
      throw LinkError("a compressed gradient marks other than its {} zeros",
                      zeros_);
    return is_zero;
  }
  /// Checks the end, after the last element.
  void finish() const {
    if (bits_) bits_->finish();
  }

 private:
  std::size_t zeros_;
  std::size_t others_;
  std::size_t zeros_read_ = 0;
  std::size_t others_read_ = 0;
  std::optional<BitReader> bits_;
};

void check_rows(std::size_t elements, std::size_t row) {
  SLUICE_CHECK(elements == 0 || (row > 0 && elements % row == 0),
               "{} elements in rows of {}", elements, row);
}

float norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values)
    sum += static_cast<double>(value) * static_cast<double>(value);
  const auto norm = static_cast<float>(std::sqrt(sum));
  // NaN marks the whole bucket, also where the sum of finite elements is
  // infinite.
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

/// The level of a value, with its sign.
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
  append_zeros(values, out);
  for (; !values.empty(); values = values.subspan(row)) {
    const auto mine = values.first(row);
    Half positive;
    Half negative;
    for (const float value : mine)
      if (value != 0) (is_negative(value) ? negative : positive).add(value);
    append_value(positive.mean(), out);
    append_value(negative.mean(), out);
    BitWriter bits(out);
    for (const float value : mine) bits.put(is_negative(value) ? 1 : 0, 1);
    bits.finish();
  }
}

void decode_halves(EncodedReader& in, std::size_t row,
                   std::span<float> values) {
  check_rows(values.size(), row);
  ZerosReader zeros(in, values.size());
  for (; !values.empty(); values = values.subspan(row)) {
    const float positive = in.number();
    const float negative = in.number();
    BitReader bits(in, row, 1);
    for (float& value : values.first(row)) {
      value = bits.next() == 1 ? negative : positive;
      if (zeros.next()) value = 0;
    }
    bits.finish();
  }
  zeros.finish();
}

void encode_signs(std::span<const float> values, bool is_scaled,
                  EncodedBytes& out) {
  if (is_scaled) {
    Half magnitudes;
    for (const float value : values) magnitudes.add(std::fabs(value));
    append_value(magnitudes.mean(), out);
  }
  append_zeros(values, out);
  BitWriter bits(out);
  for (const float value : values)
    if (value != 0) bits.put(is_negative(value) ? 1 : 0, 1);
  bits.finish();
}

void decode_signs(EncodedReader& in, bool is_scaled, std::span<float> values) {
  const float scale = is_scaled ? in.number() : 1.0F;
  ZerosReader zeros(in, values.size());
  BitReader bits(in, zeros.others(), 1);
  for (float& value : values)
    value = zeros.next() ? 0.0F : bits.next() == 1 ? -scale : scale;
  zeros.finish();
  bits.finish();
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
