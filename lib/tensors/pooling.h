#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

// What heads, predictors and models do with maps [N, C, H, W]. The values are
// those of ATen's functions, bit for bit; but maps in channels-last order get
// their gradient in that order too. ATen's own gradient of a mean, of a
// bilinear resize, a slice or a flatten lies in the other order: everything
// below it then reads and writes with strides.

/// The averages of height x width parts of each map: [N, C, height, width].
at::Tensor average_pool(const at::Tensor& maps, std::int64_t height,
                        std::int64_t width);

/// The mean over all pixels: [N, C].
at::Tensor pixel_mean(const at::Tensor& maps);

/// [N, C, height, width]; the outermost pixels keep their centres
/// (align_corners).
at::Tensor resize_bilinear(const at::Tensor& maps, std::int64_t height,
                           std::int64_t width);

/// Every stride-th pixel of every stride-th row: [N, C, H', W'], a view.
at::Tensor subsample(const at::Tensor& maps, std::int64_t stride);

/// Flattens maps to [N, C H W]. Takes other shapes too.
at::Tensor flat(const at::Tensor& maps);

}  // namespace sluice
