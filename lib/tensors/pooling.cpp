#include "lib/tensors/pooling.h"

#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include "lib/tensors/pooling_matrices.h"

namespace sluice {
namespace {

bool is_channels_last(const at::Tensor& x) {
  return x.dim() == 4 &&
         x.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

/// Alias of the maps whose gradient is put into their memory order when it
/// arrives: one copy, where each operation below would make its own.
at::Tensor with_gradient_in_order(const at::Tensor& maps) {
  const bool has_gradient = at::GradMode::is_enabled() && maps.requires_grad();
  if (!has_gradient || !is_channels_last(maps)) return maps;
  at::Tensor alias = maps.view_as(maps);  // maps itself may be a leaf
  alias.register_hook([](const at::Tensor& gradient) {
    return gradient.contiguous(at::MemoryFormat::ChannelsLast);
  });
  return alias;
}

/// Average pooling whose gradients are deterministic on GPUs.
at::Tensor average_pool_on_gpu(const at::Tensor& maps, std::int64_t height,
                               std::int64_t width) {
  if (maps.size(2) % height != 0 || maps.size(3) % width != 0)
    return average_by_matrices(maps, height, width);
  const std::int64_t part[] = {maps.size(2) / height, maps.size(3) / width};
  return at::avg_pool2d(maps, part, /*stride=*/part);
}

}  // namespace

at::Tensor average_pool(const at::Tensor& maps, std::int64_t height,
                        std::int64_t width) {
  const bool is_mean = height == 1 && width == 1;
  if (!is_mean && !maps.is_cpu())
    return average_pool_on_gpu(maps, height, width);
  if (!is_mean || !is_channels_last(maps))
    return at::adaptive_avg_pool2d(maps, {height, width});
  return maps.permute({0, 2, 3, 1})
      .mean({1, 2}, /*keepdim=*/true)
      .permute({0, 3, 1, 2});
}

at::Tensor pixel_mean(const at::Tensor& maps) {
  if (!is_channels_last(maps)) return maps.mean({2, 3});
  return maps.permute({0, 2, 3, 1}).mean({1, 2});
}

at::Tensor resize_bilinear(const at::Tensor& maps, std::int64_t height,
                           std::int64_t width) {
  if (!maps.is_cpu()) return resize_by_matrices(maps, height, width);
  return at::upsample_bilinear2d(with_gradient_in_order(maps), {height, width},
                                 /*align_corners=*/true);
}

at::Tensor subsample(const at::Tensor& maps, std::int64_t stride) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (!is_channels_last(maps))
    return maps.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
  return maps.permute({0, 2, 3, 1})
      .slice(1, 0, kEnd, stride)
      .slice(2, 0, kEnd, stride)
      .permute({0, 3, 1, 2});
}

at::Tensor flat(const at::Tensor& maps) {
  return with_gradient_in_order(maps).flatten(1);
}

}  // namespace sluice
