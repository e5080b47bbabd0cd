#include "auxiliary_heads/contrast.h"

#include <limits>

#include <ATen/ops/eye.h>
#include <ATen/ops/log_softmax.h>
#include <c10/core/ScalarType.h>

#include "lib/tensors/precision.h"

namespace sluice {

at::Tensor supervised_contrast(const at::Tensor& rows, const at::Tensor& labels,
                               double temperature) {
  constexpr double kEpsilon = 1e-12;
  const FullPrecisionScope full_precision;
  const at::Tensor x =
      rows.to(c10::promoteTypes(rows.scalar_type(), at::kFloat));
  if (x.size(0) < 2) return x.sum() * 0;  // it has no others at all
  const at::Tensor directions =
      x / x.norm(2, 1, /*keepdim=*/true).clamp_min(kEpsilon);
  const at::Tensor itself =
      at::eye(x.size(0), x.options().dtype(at::kBool).requires_grad(false));
  const at::Tensor similarity =
      (directions.matmul(directions.t()) / temperature)
          .masked_fill(itself, -std::numeric_limits<double>::infinity());
  // The diagonal, -inf, has no part in the sums below.
  const at::Tensor log_share =
      at::log_softmax(similarity, 1).masked_fill(itself, 0);  // [N, N]
  const at::Tensor alike =
      (labels.unsqueeze(0) == labels.unsqueeze(1)).masked_fill(itself, false);
  const at::Tensor others = alike.sum(1).clamp_min(1);
  return -((log_share * alike).sum(1) / others).mean();
}

}  // namespace sluice
