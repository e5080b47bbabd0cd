#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

// Poolings and resizes of maps [N, C, H, W] as products with fixed matrices,
// rows * map * columns^T. CUDA's own gradients of them add in any order: with
// `deterministic = true` they throw.

/// [out, in], float64: row i averages part i, as adaptive_avg_pool2d cuts them.
at::Tensor averaging_matrix(std::int64_t in, std::int64_t out);
/// [out, in], float64: row i is between two neighbours, as upsample_bilinear2d
/// with align_corners has it.
at::Tensor interpolation_matrix(std::int64_t in, std::int64_t out);

/// [N, C, height, width] of maps with rows [height, H] and columns [width, W],
/// which have the maps' type. Keeps the maps' memory format, and so does the
/// gradient.
at::Tensor product_of(const at::Tensor& rows, const at::Tensor& maps,
                      const at::Tensor& columns);

/// adaptive_avg_pool2d, to within rounding. Products are in float32 at least.
at::Tensor average_by_matrices(const at::Tensor& maps, std::int64_t height,
                               std::int64_t width);
/// upsample_bilinear2d with align_corners, to within rounding.
at::Tensor resize_by_matrices(const at::Tensor& maps, std::int64_t height,
                              std::int64_t width);

}  // namespace sluice
