#include "experiments/data/sets/stored_array.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/checkpoints/safetensors_header.h"
#include "lib/tensors/dtypes.h"

namespace sluice {

std::int64_t StoredArray::width() const {
  std::int64_t width = 1;
  for (const std::int64_t size : std::span(array.sizes).subspan(1))
    width *= size;
  return width;
}

std::string StoredArray::sizes_text() const {
  return fmt::format("[{}]", fmt::join(array.sizes, ", "));
}

std::span<std::byte> bytes_of_values(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

at::Tensor rows_of(const StoredArray& stored,
                   std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> sizes = stored.array.sizes;
  sizes[0] = std::ssize(indices);
  at::Tensor rows = at::empty(sizes, scalar_type(stored.array.dtype));
  std::span<std::byte> bytes = bytes_of_values(rows);
  const std::size_t row_bytes =
      static_cast<std::size_t>(stored.width()) * size_of(stored.array.dtype);
  for (const std::int64_t index : indices) {
    SLUICE_CHECK(index >= 0 && index < stored.rows(), "sample {} of {}", index,
                 stored.rows());
    stored.file->read(
        stored.array.begin + static_cast<std::uint64_t>(index) * row_bytes,
        bytes.first(row_bytes));
    bytes = bytes.subspan(row_bytes);
  }
  return rows;
}

at::Tensor all_of_array(const StoredArray& stored) {
  at::Tensor all =
      at::empty(stored.array.sizes, scalar_type(stored.array.dtype));
  stored.file->read(stored.array.begin, bytes_of_values(all));
  return all;
}

StoredArray open_npy(const std::string& path) {
  auto file = std::make_shared<const RawFile>(path);
  std::vector<std::uint8_t> head(static_cast<std::size_t>(
      std::min<std::uint64_t>(file->size(), kMostNpyHead)));
  file->read(0, std::as_writable_bytes(std::span(head)));
  const PackedArray array = read_npy_header(head, path, file->size());
  return {.file = std::move(file), .array = array, .name = path};
}

StoredArray open_entry(const std::string& path, const std::string& name) {
  auto file = std::make_shared<const RawFile>(path);
  std::ifstream stream(path, std::ios::binary);
  for (const SafetensorsEntry& entry :
       read_safetensors_header(stream, path, file->size())) {
    if (entry.name != name) continue;
    const auto data = static_cast<std::uint64_t>(stream.tellg());
    return {.file = std::move(file),
            .array = {.dtype = entry.dtype,
                      .sizes = entry.sizes,
                      .begin = data + entry.begin},
            .name = fmt::format("{}: the tensor '{}'", path, name)};
  }
  throw UserError(
      "{}: has no tensor '{}'; a data set has 'inputs' and 'targets'", path,
      name);
}

}  // namespace sluice
