#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian; no host of another order is known");

/// Appends numbers and texts as the wire has them.
class ByteWriter {
 public:
  template <std::integral T>
  void put(T value) {
    append(&value, sizeof value);
  }
  void put_text(std::string_view text) { append(text.data(), text.size()); }
  /// Zeros up to a multiple of `multiple` bytes.
  void pad_to(std::size_t multiple);
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* begin, std::size_t count);

  std::vector<std::byte> bytes_;
};

/// Takes them off again. Throws LinkError when there are too few bytes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::integral T>
  T take() {
    T value = 0;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string take_text(std::size_t length) {
    const std::span<const std::byte> bytes = take_bytes(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// Takes `count` bytes that must be 0.
  void take_zeros(std::size_t count) {
    const std::span<const std::byte> bytes = take_bytes(count);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (!std::all_of(bytes.begin(), bytes.end(), is_zero)) {
      throw LinkError("a reserved byte of the frame is not 0");
    }
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> take_bytes(std::size_t count) {
    if (count > rest_.size()) {
      throw LinkError("frame is too short: {} bytes are missing",
                      count - rest_.size());
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
};

}  // namespace sluice
