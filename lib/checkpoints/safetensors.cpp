#include "lib/checkpoints/safetensors.h"

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "lib/base/crc32c.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/read_file.h"
#include "lib/checkpoints/finite.h"
#include "lib/checkpoints/safetensors_header.h"
#include "lib/tensors/dtypes.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and so is this code");

using Json = nlohmann::ordered_json;

/// The elements of a contiguous tensor on the CPU, as bytes.
std::span<const std::byte> bytes_in(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()),
          tensor.nbytes()};
}

}  // namespace

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const FileNotes& notes) {
  std::vector<at::Tensor> rows;
  std::vector<std::uint32_t> checksums;
  std::string not_finite;
  for (const auto& [name, tensor] : tensors) {
    rows.push_back(tensor.detach().to(at::kCPU).contiguous());
    checksums.push_back(crc32c(bytes_in(rows.back())));
    not_finite += is_finite(rows.back()) ? '0' : '1';
  }
  Json header = Json::object();
  for (const auto& [name, text] : checksum_notes(checksums))
    header["__metadata__"][name] = text;
  if (not_finite.find('1') != not_finite.npos)
    header["__metadata__"][kNotFiniteNote] = not_finite;
  for (const auto& [name, text] : notes) header["__metadata__"][name] = text;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    SLUICE_CHECK(!header.contains(name), "two tensors are called '{}'", name);
    const std::uint64_t end = offset + rows[i].nbytes();
    header[name] = {{"dtype", safetensors_name(dtype_of(tensor))},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  seal(text);
  const std::uint64_t length = text.size();
  write_file_atomically(path, [&](std::ostream& file) {
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    for (const at::Tensor& row : rows)
      file.write(static_cast<const char*>(row.const_data_ptr()),
                 static_cast<std::streamsize>(row.nbytes()));
  });
}

NamedTensors read_safetensors(
    const std::string& path,
    const std::function<bool(std::string_view name)>& wanted) {
  check_regular_file(path);  // a fifo would wait for ever
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (!file || error)
    throw UserError("{}: can't be read: {}", path,
                    error ? error.message() : "permission denied");
  const auto entries = read_safetensors_header(file, path, bytes);
  const auto data = file.tellg();
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : entries) {
    if (wanted && !wanted(entry.name)) continue;
    at::Tensor tensor = at::empty(entry.sizes, scalar_type(entry.dtype));
    file.seekg(data + static_cast<std::streamoff>(entry.begin));
    file.read(static_cast<char*>(tensor.data_ptr()),
              static_cast<std::streamsize>(entry.end - entry.begin));
    if (!file) throw UserError("{}: ends within '{}'", path, entry.name);
    check_checksum(entry, bytes_in(tensor), path);
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace sluice
