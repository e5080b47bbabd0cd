#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Gradients in fewer bytes, as replicas send them to each other: loops over
/// plain arrays of float32, for the CPU. How a number becomes bits is said at
/// each pair of functions; whole numbers and float32 are little-endian, and
/// nothing is aligned. What an array of as many elements can't have become is
/// refused with a LinkError, before any of it is written outside the array.
namespace sluice {

using EncodedBytes = std::vector<std::byte>;

/// Reads from the front of what somebody has sent.
class EncodedReader {
 public:
  explicit EncodedReader(std::span<const std::byte> bytes) : left_(bytes) {}

  /// Takes so many bytes. Throws LinkError where fewer are left.
  std::span<const std::byte> take(std::uint64_t bytes);
  std::uint32_t word();
  std::uint64_t long_word();
  float number();
  /// Checks the end. Throws LinkError unless all has been read.
  void finish() const;

 private:
  std::span<const std::byte> left_;
};

void append_long_word(std::uint64_t value, EncodedBytes& out);

/// The indices, ascending, of the elements of largest magnitude, as many as
/// `count` or all; of equal ones the first. NaN counts as larger than infinity.
std::vector<std::uint32_t> largest(std::span<const float> values,
                                   std::uint64_t count);

/// Some elements: their number, their indices, their values. The others are
/// read as 0.
void encode_sparse(std::span<const float> values,
                   std::span<const std::uint32_t> kept, EncodedBytes& out);
void decode_sparse(EncodedReader& in, std::span<float> values);

/// The elements whose magnitude is `threshold` or more, each a word: its index,
/// above the sign in the lowest bit. Their number comes first. They are read as
/// plus or minus the threshold, the others as 0. Fewer than 2^31 elements.
void encode_steps(std::span<const float> values, float threshold,
                  EncodedBytes& out);
void decode_steps(EncodedReader& in, float threshold, std::span<float> values);

/// The number of elements that are 0 (or -0), and where there are any a bit per
/// element, 1 for these, in words from the lowest bit on: they are read as 0.
/// Then rows of `row` elements: the means of those above 0 and of the others,
/// and a bit per element, 1 for the others. An empty half has the mean 0. NaN
/// is one of the others.
void encode_halves(std::span<const float> values, std::size_t row,
                   EncodedBytes& out);
void decode_halves(EncodedReader& in, std::size_t row, std::span<float> values);

/// As above the zeros; and a bit for each other element, 1 for those below
/// 0; before them the mean of all magnitudes where `is_scaled`, which is then
/// what the others are read as, with their signs; else 1.
void encode_signs(std::span<const float> values, bool is_scaled,
                  EncodedBytes& out);
void decode_signs(EncodedReader& in, bool is_scaled, std::span<float> values);

/// How numbers become some of `levels` equal steps of their norm.
struct Levels {
  std::uint32_t levels = 7;  ///< on each side of 0: 1 to 32767
  std::size_t bucket = 512;  ///< elements that share a norm

  /// Bits of an element.
  int width() const;
};

/// Buckets: their Euclidean norm, and of each element the number of the level
/// with its sign, plus `levels`. Between two levels chance decides so that the
/// mean is the element: by philox() of its index, under `key`. A bucket whose
/// norm is no finite number is read as NaN.
void encode_levels(std::span<const float> values, const Levels& levels,
                   std::uint64_t key, EncodedBytes& out);
void decode_levels(EncodedReader& in, const Levels& levels,
                   std::span<float> values);

}  // namespace sluice
