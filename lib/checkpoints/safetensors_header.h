#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/buffer.h"

namespace sluice {

/// A tensor as the header of a safetensors file describes it. Its bytes are
/// [begin, end) of what follows the header, and as many as sizes and dtype say.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> sizes = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Reads the header from the start of a file of `file_bytes`, and leaves the
/// stream behind it. In the order of the bytes; none overlap. Believes nothing:
/// throws UserError naming `path` and what is wrong.
std::vector<SafetensorsEntry> read_safetensors_header(std::istream& file,
                                                      const std::string& path,
                                                      std::uint64_t file_bytes);

/// "F32" and so on; throws UserError for what is no such name.
std::string_view safetensors_name(DType dtype);
DType safetensors_dtype(std::string_view name, const std::string& path);

}  // namespace sluice
