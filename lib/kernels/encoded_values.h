#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/base/error.h"
#include "lib/kernels/compressed.h"

/// Writers and readers for the forms of compressed gradients.
namespace sluice {

inline constexpr std::size_t kWordBytes = 4;
inline constexpr int kWordBits = 32;

template <class Value>
void append_value(Value value, EncodedBytes& out) {
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

inline std::size_t words_for(std::size_t bits) {
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
    append_value(static_cast<std::uint32_t>(held_), out_);
    held_ >>= kWordBits;
    filled_ -= kWordBits;
  }
  void finish() {
    if (filled_ > 0) append_value(static_cast<std::uint32_t>(held_), out_);
    held_ = 0;
    filled_ = 0;
  }

 private:
  EncodedBytes& out_;
  std::uint64_t held_ = 0;
  int filled_ = 0;  // bits
};

/// Reads so many codes from their words.
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
  /// Checks that no bits are left, after the last code.
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

}  // namespace sluice
