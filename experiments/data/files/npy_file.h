#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/buffer.h"

namespace sluice {

/// Place and type of an array's numbers in a file: row by row, little-endian.
struct PackedArray {
  DType dtype = DType::float32;
  std::vector<std::int64_t> sizes = {};
  std::uint64_t begin = 0;  ///< the first byte of the first number
};

/// Contents of a .npy header, whatever its numbers are: read_npy_header() below
/// takes those of DType alone.
struct NpyForm {
  std::string code = {};  ///< NumPy's: "<u2"
  std::vector<std::int64_t> sizes = {};
  std::uint64_t begin = 0;  ///< the first byte of the first number
};

/// Bytes that hold any header which read_npy_header() takes.
inline constexpr std::size_t kMostNpyHead = 4096;

/// Reads the header of a .npy file of version 1, 2 or 3 (NumPy's
/// numpy.lib.format) from the first bytes of it: all of them or kMostNpyHead.
/// Believes nothing: throws UserError in one line that begins with `path` for
/// another version, a header that is damaged, too long, or doesn't fit
/// `file_bytes`, numbers that are big-endian, in Fortran's order, or not of
/// DType (complex numbers, texts, records, objects).
PackedArray read_npy_header(std::span<const std::uint8_t> head,
                            const std::string& path, std::uint64_t file_bytes);

/// Reads the header of numbers of any type but records; the caller compares
/// their size with the file's.
NpyForm read_npy_form(std::span<const std::uint8_t> head,
                      const std::string& path);

}  // namespace sluice
