#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/experiments/data/data_test_files.h"

namespace sluice {

template <class Number>
Bytes bytes_of_numbers(const std::vector<Number>& numbers) {
  Bytes bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// A .npy file: its header with this text, and what follows.
inline Bytes npy_with(const std::string& text, const Bytes& data,
                      std::uint8_t version = 1) {
  Bytes file = {0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
  const int length_bytes = version == 1 ? 2 : 4;
  for (int i = 0; i < length_bytes; ++i)
    file.push_back(static_cast<std::uint8_t>(text.size() >> (8 * i)));
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

/// As numpy.save() writes it. `shape`: "(2, 3)".
inline Bytes npy_of(std::string_view type, std::string_view shape,
                    const Bytes& data) {
  return npy_with(
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n",
                  type, shape),
      data);
}

}  // namespace sluice
