#include "lib/checkpoints/safetensors_header.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "lib/base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kTypes[] = {
    {DType::float32, "F32"},   {DType::float64, "F64"}, {DType::float16, "F16"},
    {DType::bfloat16, "BF16"}, {DType::int64, "I64"},   {DType::int32, "I32"},
    {DType::int16, "I16"},     {DType::int8, "I8"},     {DType::uint8, "U8"},
    {DType::boolean, "BOOL"},
};

/// The longest header that is believed, as in the reference implementation.
constexpr std::uint64_t kMaxHeader = 100'000'000;

/// A size of 0 counts as 1 for the limit, because LibTorch multiplies from the
/// left before it meets the 0.
std::uint64_t bytes_of(const SafetensorsEntry& entry, const std::string& path) {
  auto bytes = static_cast<std::int64_t>(size_of(entry.dtype));
  bool is_empty = false;
  for (const std::int64_t size : entry.sizes) {
    is_empty = is_empty || size == 0;
    if (size < 0 ||
        __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes))
      throw UserError("{}: tensor '{}' has impossible sizes", path, entry.name);
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

SafetensorsEntry entry_of(const std::string& name, const Json& item,
                          const std::string& path, std::uint64_t data_bytes) {
  SafetensorsEntry entry{
      name, safetensors_dtype(item.at("dtype").get<std::string>(), path),
      item.at("shape").get<std::vector<std::int64_t>>(),
      item.at("data_offsets").at(0).get<std::uint64_t>(),
      item.at("data_offsets").at(1).get<std::uint64_t>()};
  const std::uint64_t bytes = bytes_of(entry, path);
  if (entry.begin > entry.end || entry.end > data_bytes ||
      entry.end - entry.begin != bytes)
    throw UserError(
        "{}: tensor '{}' needs {} bytes, its offsets are {} to {} of {}", path,
        name, bytes, entry.begin, entry.end, data_bytes);
  return entry;
}

void check_overlaps(const std::vector<SafetensorsEntry>& entries,
                    const std::string& path) {
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].begin < entries[i - 1].end)
      throw UserError("{}: tensors '{}' and '{}' share bytes", path,
                      entries[i - 1].name, entries[i].name);
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  for (const TypeName& row : kTypes)
    if (row.dtype == dtype) return row.name;
  throw InternalError("no name for dtype {}", static_cast<int>(dtype));
}

DType safetensors_dtype(std::string_view name, const std::string& path) {
  for (const TypeName& row : kTypes)
    if (row.name == name) return row.dtype;
  throw UserError("{}: unknown element type '{}'", path, name);
}

std::vector<SafetensorsEntry> read_safetensors_header(
    std::istream& file, const std::string& path, std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!file || length > kMaxHeader || length + sizeof length > file_bytes)
    throw UserError("{}: no safetensors file: {} bytes, header of {}", path,
                    file_bytes, file ? length : 0);
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  std::vector<SafetensorsEntry> entries;
  try {
    const Json header = Json::parse(text);
    for (const auto& [name, item] : header.items())
      if (name != "__metadata__")
        entries.push_back(
            entry_of(name, item, path, file_bytes - length - sizeof length));
  } catch (const Json::exception& error) {
    throw UserError("{}: the header is damaged: {}", path, error.what());
  }
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  check_overlaps(entries, path);
  return entries;
}

}  // namespace sluice
