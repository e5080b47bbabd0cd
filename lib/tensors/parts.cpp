#include "lib/tensors/parts.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {

std::int64_t up_to_line(std::int64_t elements) {
  return (elements + kLine - 1) / kLine * kLine;
}

Part part_of(std::int64_t elements, std::int64_t i, std::int64_t n) {
  const auto cut = [&](std::int64_t at) {
    return elements / kLine * at / n * kLine;
  };
  return {cut(i), cut(i + 1)};
}

at::Tensor line_of(const at::Tensor& tensor) {
  SLUICE_CHECK(tensor.is_non_overlapping_and_dense(),
               "a tensor of {} elements that doesn't lie dense",
               tensor.numel());
  return tensor.as_strided({tensor.numel()}, {1});
}

at::Tensor part_of(const at::Tensor& tensor, const Share& share) {
  const std::int64_t size = tensor.numel();
  const Part part = part_of(up_to_line(size), share.member - 1, share.members);
  return line_of(tensor).slice(0, std::min(part.begin, size),
                               std::min(part.end, size));
}

Tensors parts_of(const Tensors& tensors, const Share& share) {
  Tensors parts;
  for (const at::Tensor& tensor : tensors)
    parts.push_back(tensor.defined() ? part_of(tensor, share) : at::Tensor());
  return parts;
}

}  // namespace sluice
