#include "lib/kernels/compressed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "lib/base/error.h"
#include "lib/kernels/element.h"
#include "lib/kernels/encoded_values.h"

namespace sluice {
namespace {

/// Checks that indices ascend and stay within the size.
class IndexOrder {
 public:
  explicit IndexOrder(std::size_t size) : size_(size) {}
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
  append_value(value, out);
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
  append_value(static_cast<std::uint32_t>(kept.size()), out);
  for (const std::uint32_t index : kept) append_value(index, out);
  for (const std::uint32_t index : kept) append_value(values[index], out);
}

void decode_sparse(EncodedReader& in, std::span<float> values) {
  const std::uint32_t count = count_of(in, values);
  const auto indices = in.take(std::uint64_t{kWordBytes} * count);
  const auto numbers = in.take(std::uint64_t{kWordBytes} * count);
  std::fill(values.begin(), values.end(), 0.0F);
  IndexOrder places(values.size());
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
  append_value(count, out);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(std::fabs(values[i]) >= threshold)) continue;
    append_value(
        static_cast<std::uint32_t>(i << 1U) | (values[i] < 0 ? 1U : 0U), out);
    ++count;
  }
  std::memcpy(out.data() + place, &count, sizeof(count));
}

void decode_steps(EncodedReader& in, float threshold, std::span<float> values) {
  const std::uint32_t count = count_of(in, values);
  const auto words = in.take(std::uint64_t{kWordBytes} * count);
  std::fill(values.begin(), values.end(), 0.0F);
  IndexOrder places(values.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = value_at<std::uint32_t>(words, i);
    values[places.next(word >> 1U)] = (word & 1U) != 0 ? -threshold : threshold;
  }
}

}  // namespace sluice
