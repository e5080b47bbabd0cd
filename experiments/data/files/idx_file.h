#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// An idx file of unsigned bytes, the format of MNIST
/// (http://yann.lecun.com/exdb/mnist): two zero bytes, the type 8, the number
/// of dimensions, each size as big-endian 32 bits, then the values.
struct IdxFile {
  std::vector<std::int64_t> sizes = {};
  std::vector<std::uint8_t> values = {};
};

/// Reads one with `dimensions` dimensions, gzipped or not. Throws UserError
/// that names the file, what was found and what was expected.
IdxFile read_idx(const std::string& path, std::size_t dimensions);

/// Reads the sizes alone, as read_idx() does: the values are not read, and in a
/// gzipped file not counted.
std::vector<std::int64_t> read_idx_sizes(const std::string& path,
                                         std::size_t dimensions);

}  // namespace sluice
