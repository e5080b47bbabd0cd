#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/buffer.h"

namespace sluice {

/// A tensor as the header of a safetensors file describes it. The tensor's data
/// are bytes [begin, end) counted from the header's end, as many as sizes and
/// dtype say.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> sizes = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  /// CRC-32C of the data; nothing in files of other programs.
  std::optional<std::uint32_t> checksum = {};
  /// False where the writer found NaN or an infinity and noted it.
  bool is_noted_finite = true;
};

/// Reads the header from the start of a file of `file_bytes`, and leaves the
/// stream behind it. In the order of the bytes; none overlap. Believes nothing:
/// throws UserError naming `path` and what is wrong, a checksum of the header
/// that isn't its own for instance.
std::vector<SafetensorsEntry> read_safetensors_header(std::istream& file,
                                                      const std::string& path,
                                                      std::uint64_t file_bytes);

/// The metadata of a header that names tensors of these checksums in this
/// order: other programs pass over it. It goes first, and has a place for the
/// checksum of the header itself.
std::vector<std::pair<std::string, std::string>> checksum_notes(
    std::span<const std::uint32_t> tensors);
/// The note beside them where some tensors aren't finite: a '1' for each of
/// these, else '0', in the order of the header. A file whose tensors all are
/// finite has none.
inline constexpr const char* kNotFiniteNote = "sluice.not_finite";
/// Writes that checksum into the place in the header's text, spaces at its end
/// included. Nothing else of it may change afterwards.
void seal(std::string& header);

/// Throws UserError with the remedy unless these are the tensor's bytes.
void check_checksum(const SafetensorsEntry& entry,
                    std::span<const std::byte> bytes, const std::string& path);

/// "F32" and so on; throws UserError for what is no such name.
std::string_view safetensors_name(DType dtype);
DType safetensors_dtype(std::string_view name, const std::string& path);

}  // namespace sluice
