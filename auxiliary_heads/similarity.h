#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

// The pieces of similarity matching (Nokland & Eidnes 2019, arXiv:1901.06656).

/// How alike the samples are: [N, ...] -> [N, N], the cosine of the centred
/// rows, clamped to [-1, 1]. Maps with more than 3 channels and more than one
/// row are reduced to the standard deviation of each channel over space
/// (unbiased); other features are flattened. A row without variation is alike
/// to nothing, itself included: 0, with a gradient of 0. Computed in float32 or
/// better.
at::Tensor similarity_matrix(const at::Tensor& features);

/// Similarity of one-hot labels [N] int64, in closed form: 1 for samples of one
/// class, else -1 / (classes - 1). classes >= 2.
at::Tensor label_similarity(const at::Tensor& labels, std::int64_t classes);

/// An average pool without overlap that makes maps small enough for a linear
/// layer. Padding counts as zeros.
struct PoolPlan {
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t padding_height = 0;
  std::int64_t padding_width = 0;
  std::int64_t height = 0;  ///< of the output
  std::int64_t width = 0;

  bool operator==(const PoolPlan&) const = default;
};

/// The kernel is doubled in height, then in width, and so on until
/// channels * height * width <= limit or a single pixel is left.
PoolPlan plan_pool(std::int64_t channels, std::int64_t height,
                   std::int64_t width, std::int64_t limit);

/// maps [N, C, H, W] of the planned size -> [N, C, plan.height, plan.width].
at::Tensor pooled(const at::Tensor& maps, const PoolPlan& plan);

}  // namespace sluice
