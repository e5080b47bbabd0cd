#include "lib/kernels/compressed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "lib/base/error.h"
#include "lib/kernels/element.h"
#include "lib/kernels/philox.h"

namespace sluice {
namespace {

constexpr std::size_t kWordBytes = 4;
constexpr int kWordBits = 32;

template <class Value>
void append(Value value, EncodedBytes& out) {
  const std::size_t end = out.size();
  out.resize(end + sizeof(Value));
  std::memcpy(out.data() + end, &value, sizeof(Value));
}

template <class Value>
Value value_at(std::span<const std::byte> bytes, std::size_t index) {
  Value value;
  std::memcpy(&value, bytes.data() + index * sizeof(Value), sizeof(Value));
  return value;
}

std::size_t words_for(std::size_t bits) {
  return (bits + kWordBits - 1) / kWordBits;
}

/// Whole words; the last one ends in zeros.
class BitWriter {
 public:
  explicit BitWriter(EncodedBytes& out) : out_(out) {}
  void put(std::uint32_t code, int width) {
    held_ |= std::uint64_t{code} << filled_;
    filled_ += width;
    if (filled_ < kWordBits) return;
    append(static_cast<std::uint32_t>(held_), out_);
    held_ >>= kWordBits;
    filled_ -= kWordBits;
  }
  void finish() {
    if (filled_ > 0) append(static_cast<std::uint32_t>(held_), out_);
    held_ = 0;
    filled_ = 0;
  }

 private:
  EncodedBytes& out_;
  std::uint64_t held_ = 0;
  int filled_ = 0;  // bits
};

/// Those of so many codes.
class BitReader {
 public:
  BitReader(EncodedReader& in, std::size_t codes, int width)
      : words_(in.take(std::uint64_t{kWordBytes} *
                       words_for(codes * static_cast<std::size_t>(width)))),
        width_(width) {}
  std::uint32_t next() {
    if (filled_ < width_) {
      held_ |= std::uint64_t{value_at<std::uint32_t>(words_, read_++)}
               << filled_;
      filled_ += kWordBits;
    }
    const std::uint64_t code = held_ & ((std::uint64_t{1} << width_) - 1);
    held_ >>= width_;
    filled_ -= width_;
    return static_cast<std::uint32_t>(code);
  }
  /// After the last code.
  void finish() const {
    if (held_ != 0)
      throw LinkError("a compressed gradient has bits behind its last element");
  }

 private:
  std::span<const std::byte> words_;
  int width_;
  std::size_t read_ = 0;  // words
  std::uint64_t held_ = 0;
  int filled_ = 0;  // bits
};

/// The place that an index or code names.
class Ascending {
 public:
  explicit Ascending(std::size_t size) : size_(size) {}
  std::size_t next(std::uint32_t index) {
    if (index < least_ || index >= size_)
      throw LinkError(
          "a compressed gradient of {} elements has index {} where {} to {} "
          "may be",
          size_, index, least_, size_ - 1);
    least_ = std::uint64_t{index} + 1;
    return index;
  }

 private:
  std::size_t size_;
  std::uint64_t least_ = 0;
};

std::uint32_t count_of(EncodedReader& in, std::span<float> values) {
  const std::uint32_t count = in.word();
  if (count > values.size())
    throw LinkError("a compressed gradient has {} of {} elements", count,
                    values.size());
  return count;
}

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

std::span<const std::byte> EncodedReader::take(std::uint64_t bytes) {
  if (bytes > left_.size())
    throw LinkError("a compressed gradient ends {} bytes too early",
                    bytes - left_.size());
  const auto taken = left_.first(static_cast<std::size_t>(bytes));
  left_ = left_.subspan(static_cast<std::size_t>(bytes));
  return taken;
}

std::uint32_t EncodedReader::word() {
  return value_at<std::uint32_t>(take(sizeof(std::uint32_t)), 0);
}

std::uint64_t EncodedReader::long_word() {
  return value_at<std::uint64_t>(take(sizeof(std::uint64_t)), 0);
}

float EncodedReader::number() {
  return value_at<float>(take(sizeof(float)), 0);
}

void EncodedReader::finish() const {
  if (!left_.empty())
    throw LinkError("a compressed gradient has {} bytes behind its end",
                    left_.size());
}

void append_long_word(std::uint64_t value, EncodedBytes& out) {
  append(value, out);
}

std::vector<std::uint32_t> largest(std::span<const float> values,
                                   std::uint64_t count) {
  std::vector<std::uint32_t> kept;
  if (count == 0) return kept;
  std::uint32_t bound = 0;
  std::uint64_t ties = values.size();
  if (count < values.size()) {
    // Whole numbers are ordered whatever they stand for, NaN too.
    std::vector<std::uint32_t> magnitudes(values.size());
    std::transform(values.begin(), values.end(), magnitudes.begin(),
                   magnitude_bits);
    const auto last =
        magnitudes.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(magnitudes.begin(), last, magnitudes.end(),
                     std::greater<>());
    bound = *last;
    ties = count - static_cast<std::uint64_t>(std::count_if(
                       magnitudes.begin(), last,
                       [&](std::uint32_t each) { return each > bound; }));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t magnitude = magnitude_bits(values[i]);
    if (magnitude < bound || (magnitude == bound && ties == 0)) continue;
    if (magnitude == bound) --ties;
    kept.push_back(static_cast<std::uint32_t>(i));
  }
  return kept;
}

void encode_sparse(std::span<const float> values,
                   std::span<const std::uint32_t> kept, EncodedBytes& out) {
  append(static_cast<std::uint32_t>(kept.size()), out);
  for (const std::uint32_t index : kept) append(index, out);
  for (const std::uint32_t index : kept) append(values[index], out);
}

void decode_sparse(EncodedReader& in, std::span<float> values) {
  const std::uint32_t count = count_of(in, values);
  const auto indices = in.take(std::uint64_t{kWordBytes} * count);
  const auto numbers = in.take(std::uint64_t{kWordBytes} * count);
  std::fill(values.begin(), values.end(), 0.0F);
  Ascending places(values.size());
  for (std::size_t i = 0; i < count; ++i)
    values[places.next(value_at<std::uint32_t>(indices, i))] =
        value_at<float>(numbers, i);
}

void encode_steps(std::span<const float> values, float threshold,
                  EncodedBytes& out) {
  constexpr std::size_t kMost = std::size_t{1} << 31;
  SLUICE_CHECK(values.size() < kMost, "{} elements in one tensor",
               values.size());
  const std::size_t place = out.size();
  std::uint32_t count = 0;
  append(count, out);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(std::fabs(values[i]) >= threshold)) continue;
    append(static_cast<std::uint32_t>(i << 1U) | (values[i] < 0 ? 1U : 0U),
           out);
    ++count;
  }
  std::memcpy(out.data() + place, &count, sizeof(count));
}

void decode_steps(EncodedReader& in, float threshold, std::span<float> values) {
  const std::uint32_t count = count_of(in, values);
  const auto words = in.take(std::uint64_t{kWordBytes} * count);
  std::fill(values.begin(), values.end(), 0.0F);
  Ascending places(values.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = value_at<std::uint32_t>(words, i);
    values[places.next(word >> 1U)] = (word & 1U) != 0 ? -threshold : threshold;
  }
}

void encode_halves(std::span<const float> values, std::size_t row,
                   EncodedBytes& out) {
  check_rows(values.size(), row);
  for (; !values.empty(); values = values.subspan(row)) {
    const auto mine = values.first(row);
    Half positive;
    Half negative;
    for (const float value : mine)
      (is_negative(value) ? negative : positive).add(value);
    append(positive.mean(), out);
    append(negative.mean(), out);
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
    append(magnitudes.mean(), out);
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
    append(norm, out);
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
