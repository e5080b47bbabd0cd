#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "experiments/data/files/npy_file.h"
#include "experiments/data/files/raw_file.h"

namespace sluice {

/// An array in a file, row by row. Any number of threads may read it.
struct StoredArray {
  std::shared_ptr<const RawFile> file = nullptr;
  PackedArray array = {};
  std::string name = {};  ///< for messages

  /// An array of no dimension has none.
  std::int64_t rows() const { return array.sizes.at(0); }
  /// Values of a row.
  std::int64_t width() const;
  /// The shape as text: "[3, 2]".
  std::string sizes_text() const;
};

/// Array of a .npy file. Throws UserError.
StoredArray open_npy(const std::string& path);
/// The tensor `name` of a safetensors file; its checksum is not compared, which
/// would take reading all of it. Throws UserError.
StoredArray open_entry(const std::string& path, const std::string& name);

/// The rows `indices`, in memory of their own and of the type that they have in
/// the file. Throws UserError when they can't be read.
at::Tensor rows_of(const StoredArray& stored,
                   std::span<const std::int64_t> indices);
at::Tensor all_of_array(const StoredArray& stored);

/// Bytes of the values of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of_values(const at::Tensor& tensor);

}  // namespace sluice
