#pragma once

#include <cstdint>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Elements: a line of the processor's cache, for the types that there are.
/// What is cut at its multiples leaves pieces that messages can share
/// (kAlignment) and that loops over vectors end alike.
inline constexpr std::int64_t kLine = 64;

/// The smallest multiple of kLine that is not less.
std::int64_t up_to_line(std::int64_t elements);

/// Part i of n of so many elements, at multiples of kLine: [begin, end).
struct Part {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Part part_of(std::int64_t elements, std::int64_t i, std::int64_t n);

/// All elements [numel] in the order of memory; shares the storage. The tensor
/// lies dense.
at::Tensor line_of(const at::Tensor& tensor);

/// Which elements of every tensor a member keeps, where each of `members` keeps
/// a part; members are numbered from 1.
struct Share {
  std::int64_t member = 1;
  std::int64_t members = 1;

  bool is_all() const { return members == 1; }
  bool operator==(const Share&) const = default;
};

/// A member's share of a tensor [numel], in the order of memory; shares the
/// storage. Small tensors are the last member's, and nothing of them the
/// others'.
at::Tensor part_of(const at::Tensor& tensor, const Share& share);
/// Parts of each tensor; undefined ones stay undefined.
Tensors parts_of(const Tensors& tensors, const Share& share);

}  // namespace sluice
