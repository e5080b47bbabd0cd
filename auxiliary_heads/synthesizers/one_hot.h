#pragma once

#include <cstdint>

#include <ATen/ops/one_hot.h>

namespace sluice {

/// [..., classes] of float32.
inline at::Tensor as_one_hot(const at::Tensor& labels, std::int64_t classes) {
  return at::one_hot(labels, classes).to(at::kFloat);
}

}  // namespace sluice
