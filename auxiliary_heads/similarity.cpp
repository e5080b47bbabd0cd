#include "auxiliary_heads/similarity.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <c10/core/ScalarType.h>

#include "lib/base/error.h"
#include "lib/tensors/pooling.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

/// [N, ...] -> [N, F]: what the samples are compared by.
at::Tensor rows_of(const at::Tensor& features) {
  const bool is_map =
      features.dim() == 4 && features.size(1) > 3 && features.size(2) > 1;
  if (!is_map) return flat(features);
  return features.flatten(2).std(/*dim=*/2, /*unbiased=*/true);
}

std::int64_t ceil_div(std::int64_t size, std::int64_t by) {
  return (size + by - 1) / by;
}

/// Half a kernel where the kernel doesn't divide the size, else none.
std::int64_t padding(std::int64_t size, std::int64_t kernel) {
  return kernel * (ceil_div(size, kernel) - size / kernel) / 2;
}

}  // namespace

at::Tensor similarity_matrix(const at::Tensor& features) {
  constexpr double kEpsilon = 1e-8;
  // The matrix is of small differences, which bfloat16 would lose.
  const FullPrecisionScope full_precision;
  const at::Tensor rows = rows_of(
      features.to(c10::promoteTypes(features.scalar_type(), at::kFloat)));
  const at::Tensor centred = rows - rows.mean(1, /*keepdim=*/true);
  const at::Tensor norm = centred.norm(2, 1, /*keepdim=*/true);  // [N, 1]
  // Without the selection a dead row's gradient would be that of the others,
  // divided by epsilon.
  const at::Tensor directions =
      at::where(norm > 0, centred / (kEpsilon + norm), 0.0);
  return directions.matmul(directions.t()).clamp(-1, 1);
}

at::Tensor label_similarity(const at::Tensor& labels, std::int64_t classes) {
  SLUICE_CHECK(classes >= 2, "{} classes", classes);
  const at::Tensor same = labels.unsqueeze(0) == labels.unsqueeze(1);
  const double other = -1.0 / static_cast<double>(classes - 1);
  const at::Tensor ones = at::full_like(same, 1.0, at::kFloat);
  return at::where(same, ones, at::full_like(ones, other));
}

PoolPlan plan_pool(std::int64_t channels, std::int64_t height,
                   std::int64_t width, std::int64_t limit) {
  PoolPlan plan = {.height = height, .width = width};
  const auto is_too_large = [&] {
    return channels * plan.height * plan.width > limit;
  };
  while (is_too_large() && plan.height * plan.width > 1) {
    if (plan.height > 1) {
      plan.kernel_height *= 2;
      plan.height = ceil_div(height, plan.kernel_height);
    }
    if (is_too_large() && plan.width > 1) {
      plan.kernel_width *= 2;
      plan.width = ceil_div(width, plan.kernel_width);
    }
  }
  plan.padding_height = padding(height, plan.kernel_height);
  plan.padding_width = padding(width, plan.kernel_width);
  return plan;
}

at::Tensor pooled(const at::Tensor& maps, const PoolPlan& plan) {
  if (plan.kernel_height == 1 && plan.kernel_width == 1) return maps;
  const std::int64_t kernel[] = {plan.kernel_height, plan.kernel_width};
  const std::int64_t zeros[] = {plan.padding_height, plan.padding_width};
  return at::avg_pool2d(maps, kernel, /*stride=*/kernel, zeros);
}

}  // namespace sluice
