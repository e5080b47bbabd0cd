#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Sizes of a tensor, and its dimensions from that of the largest stride to
/// that of the least: what bits depend on beside the numbers.
struct CodedLayout {
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> order = {};
};

CodedLayout coded_layout_of(const at::Tensor& tensor);
/// The tensor whose dimensions lie in their order in memory, with each in its
/// place.
at::Tensor with_places_of(const at::Tensor& ordered, const CodedLayout& layout);
/// Numbers in the order of the sizes as a dense tensor of that layout.
at::Tensor laid_out(const at::Tensor& numbers, const CodedLayout& layout);

/// Adds a layout to the parts that a codec sends: two bytes, repeated so often
/// as to have the shapes that say it.
void add_layout(const CodedLayout& layout, const at::TensorOptions& options,
                Tensors& parts);
/// The layout in two parts of a message, the first of them at `at`. Throws
/// LinkError, in the name of the codec, where add_layout() can't have made
/// them.
CodedLayout layout_in(const Tensors& parts, std::size_t at,
                      std::string_view codec);

/// Numbers of a size that belong together: of images [N, C, H, W] (and of more
/// dimensions) a row is a sample; of [N, C] too; of a sequence [N, T, C] a
/// place in it.
struct CodedRows {
  std::int64_t count = 1;
  std::int64_t length = 1;
};

CodedRows coded_rows_of(at::IntArrayRef sizes);

/// Refuses a message. Throws LinkError.
[[noreturn]] void refuse_parts(std::string_view codec);
/// Throws LinkError unless the part has this type and these sizes, and each of
/// its numbers was sent.
void check_part(const at::Tensor& part, at::ScalarType type,
                const std::vector<std::int64_t>& sizes, std::string_view codec);

}  // namespace sluice
