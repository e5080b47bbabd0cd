#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/files/npy_file.h"

namespace sluice {

/// An array of a .npz file, which is a zip of .npy files.
struct NpzArray {
  PackedArray array = {};
  /// Bytes of the array's numbers; none when only the header was read.
  std::vector<std::uint8_t> bytes = {};
};

/// The array `name` ("data": data.npy). Throws UserError in one line for a file
/// that is no such zip, is damaged, hasn't the array, or whose array isn't one
/// that read_npy_header() takes.
NpzArray read_npz(const std::string& path, std::string_view name);
/// Reads the header of the array, without its numbers.
NpzArray read_npz_header(const std::string& path, std::string_view name);

}  // namespace sluice
