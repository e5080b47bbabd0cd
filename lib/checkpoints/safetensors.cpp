#include "lib/checkpoints/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and so is this code");

using Json = nlohmann::ordered_json;

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {at::kFloat, "F32"}, {at::kDouble, "F64"},    {at::kHalf, "F16"},
    {at::kLong, "I64"},  {at::kBFloat16, "BF16"}, {at::kInt, "I32"},
    {at::kShort, "I16"}, {at::kChar, "I8"},       {at::kByte, "U8"},
    {at::kBool, "BOOL"},
};

const char* name_of(at::ScalarType type) {
  for (const TypeName& row : kTypes)
    if (row.type == type) return row.name;
  throw UserError("safetensors can't hold tensors of type {}",
                  at::toString(type));
}

at::ScalarType type_of(const std::string& name, const std::string& path) {
  for (const TypeName& row : kTypes)
    if (row.name == name) return row.type;
  throw UserError("{}: unknown element type '{}'", path, name);
}

/// The longest header that is believed, as in the reference implementation.
constexpr std::uint64_t kMaxHeader = 100'000'000;

struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> sizes;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Entry entry_of(const std::string& name, const Json& item,
               const std::string& path, std::uint64_t data_bytes) {
  Entry entry{name, type_of(item.at("dtype").get<std::string>(), path),
              item.at("shape").get<std::vector<std::int64_t>>(),
              item.at("data_offsets").at(0).get<std::uint64_t>(),
              item.at("data_offsets").at(1).get<std::uint64_t>()};
  std::uint64_t bytes = at::elementSize(entry.type);
  for (const std::int64_t size : entry.sizes)
    if (size < 0 ||
        __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      throw UserError("{}: tensor '{}' has impossible sizes", path, name);
  if (entry.begin > entry.end || entry.end > data_bytes ||
      entry.end - entry.begin != bytes)
    throw UserError(
        "{}: tensor '{}' needs {} bytes, its offsets are {} to {} of {}", path,
        name, bytes, entry.begin, entry.end, data_bytes);
  return entry;
}

std::vector<Entry> read_header(std::istream& file, const std::string& path,
                               std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!file || length > kMaxHeader || length + sizeof length > file_bytes)
    throw UserError("{}: no safetensors file: {} bytes, header of {}", path,
                    file_bytes, file ? length : 0);
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  std::vector<Entry> entries;
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
            [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  return entries;
}

}  // namespace

void write_safetensors(const std::string& path, const NamedTensors& tensors) {
  Json header = Json::object();
  std::vector<at::Tensor> rows;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    SLUICE_CHECK(!header.contains(name), "two tensors are called '{}'", name);
    rows.push_back(tensor.detach().to(at::kCPU).contiguous());
    const std::uint64_t end = offset + rows.back().nbytes();
    header[name] = {{"dtype", name_of(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  const std::uint64_t length = text.size();
  write_file_atomically(path, [&](std::ostream& file) {
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    for (const at::Tensor& row : rows)
      file.write(static_cast<const char*>(row.const_data_ptr()),
                 static_cast<std::streamsize>(row.nbytes()));
  });
}

NamedTensors read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (!file || error)
    throw UserError("{}: can't be read: {}", path,
                    error ? error.message() : "permission denied");
  const std::vector<Entry> entries = read_header(file, path, bytes);
  const auto data = file.tellg();
  NamedTensors tensors;
  for (const Entry& entry : entries) {
    at::Tensor tensor = at::empty(entry.sizes, entry.type);
    file.seekg(data + static_cast<std::streamoff>(entry.begin));
    file.read(static_cast<char*>(tensor.data_ptr()),
              static_cast<std::streamsize>(entry.end - entry.begin));
    if (!file) throw UserError("{}: ends within '{}'", path, entry.name);
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace sluice
