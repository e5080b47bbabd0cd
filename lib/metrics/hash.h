#pragma once

#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace sluice {

/// Sixteen hex digits that differ when bytes do. Comparable within one build of
/// the program; no protection against intent.
std::string hash_of(std::string_view bytes);

/// Hash of a tensor's values, for any layout in memory.
std::string hash_of(const at::Tensor& tensor);

}  // namespace sluice
