#include "lib/updates/trust_ratio.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor norm_of(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, {}, false, at::kDouble);
}

at::Tensor trust_ratio(const at::Tensor& weight, const at::Tensor& length) {
  const at::Tensor norm = norm_of(weight);
  const at::Tensor both = norm.gt(0).logical_and(length.gt(0));
  return at::where(both, norm / length, at::ones_like(norm));
}

}  // namespace sluice
