#include "lib/boundaries/codecs/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaps = 4;  // dimensions of [N, C, H, W]

/// Whether products of any of the sizes can be counted.
bool are_countable(const std::vector<std::int64_t>& sizes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size > kMost / product) return false;
    product *= std::max<std::int64_t>(size, 1);
  }
  return true;
}

}  // namespace

CodedLayout coded_layout_of(const at::Tensor& tensor) {
  CodedLayout layout{
      tensor.sizes().vec(),
      std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim()))};
  std::iota(layout.order.begin(), layout.order.end(), 0);
  std::stable_sort(layout.order.begin(), layout.order.end(),
                   [&](std::int64_t a, std::int64_t b) {
                     // So dimensions of size 1 keep their strides too.
                     return std::pair(tensor.stride(a), tensor.size(a)) >
                            std::pair(tensor.stride(b), tensor.size(b));
                   });
  return layout;
}

at::Tensor with_places_of(const at::Tensor& ordered,
                          const CodedLayout& layout) {
  std::vector<std::int64_t> back(layout.order.size());
  for (std::size_t i = 0; i < back.size(); ++i)
    back[static_cast<std::size_t>(layout.order[i])] =
        static_cast<std::int64_t>(i);
  return ordered.permute(back);
}

at::Tensor laid_out(const at::Tensor& numbers, const CodedLayout& layout) {
  return with_places_of(
      numbers.reshape(layout.sizes).permute(layout.order).contiguous(), layout);
}

void add_layout(const CodedLayout& layout, const at::TensorOptions& options,
                Tensors& parts) {
  const at::Tensor byte = at::zeros({}, options.dtype(at::kByte));
  std::vector<std::int64_t> order = layout.order;
  for (std::int64_t& place : order) ++place;  // no size is 0
  parts.push_back(byte.expand(layout.sizes));
  parts.push_back(byte.expand(order));
}

CodedLayout layout_in(const Tensors& parts, std::size_t at,
                      std::string_view codec) {
  if (parts.size() < at + 2) refuse_parts(codec);
  const at::Tensor& shape = parts[at];
  CodedLayout layout{shape.sizes().vec(), parts[at + 1].sizes().vec()};
  if (shape.scalar_type() != at::kByte ||
      parts[at + 1].scalar_type() != at::kByte ||
      layout.order.size() != layout.sizes.size() ||
      !are_countable(layout.sizes))
    refuse_parts(codec);
  for (std::int64_t& place : layout.order) --place;
  std::vector<std::int64_t> sorted = layout.order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<std::int64_t>(i)) refuse_parts(codec);
  return layout;
}

CodedRows coded_rows_of(at::IntArrayRef sizes) {
  CodedRows rows;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool counts = sizes.size() < kMaps ? i + 1 < sizes.size() : i == 0;
    (counts ? rows.count : rows.length) *= sizes[i];
  }
  return rows;
}

void refuse_parts(std::string_view codec) {
  throw LinkError("what came is not a tensor as codec {} sends it", codec);
}

void check_part(const at::Tensor& part, at::ScalarType type,
                const std::vector<std::int64_t>& sizes,
                std::string_view codec) {
  if (part.scalar_type() != type || part.sizes() != at::IntArrayRef(sizes) ||
      !part.is_contiguous())
    refuse_parts(codec);
}

}  // namespace sluice
