#include "lib/tensors/philox_mask.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include "lib/base/error.h"
#include "lib/kernels/masks.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

/// Elements below which another thread doesn't help.
constexpr std::int64_t kGrain = 1 << 15;

bool has_channels_last(const at::Tensor& mask) {
  return mask.is_contiguous(at::MemoryFormat::ChannelsLast) ||
         mask.is_contiguous(at::MemoryFormat::ChannelsLast3d);
}

/// The sizes of a mask [N, C, ...] that is not empty.
ChannelsLast shape_of(const at::Tensor& mask) {
  return {.samples = mask.size(0),
          .channels = mask.size(1),
          .pixels = mask.numel() / mask.size(0) / mask.size(1)};
}

void fill_on_cpu(const MaskRule& rule, float* mask, std::int64_t count) {
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu_mask_kernels().fill(rule, begin, end - begin, mask + begin, nullptr);
  });
}

void fill_on_cpu(const MaskRule& rule, float* mask, const ChannelsLast& shape) {
  const std::int64_t size = shape.channels * shape.pixels;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / size);
  at::parallel_for(0, shape.samples, grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     ChannelsLast part = shape;
                     part.first_sample = begin;
                     part.samples = end - begin;
                     cpu_mask_kernels().fill_channels_last(
                         rule, part, mask + begin * size, nullptr);
                   });
}

/// Contiguous or channels last.
void fill_on_cpu(const MaskRule& rule, const at::Tensor& mask) {
  float* data = mask.data_ptr<float>();
  if (mask.is_contiguous())
    fill_on_cpu(rule, data, mask.numel());
  else
    fill_on_cpu(rule, data, shape_of(mask));
}

void fill_on_gpu(const MaskKernels& kernels, const MaskRule& rule,
                 const at::Tensor& mask) {
  const c10::DeviceGuard on(mask.device());
  void* stream = computing_on(mask.device()).native_handle();
  float* data = mask.data_ptr<float>();
  if (mask.is_contiguous())
    kernels.fill(rule, 0, mask.numel(), data, stream);
  else
    kernels.fill_channels_last(rule, shape_of(mask), data, stream);
}

/// Kernels for the mask's device; nullptr where it has none.
const MaskKernels* gpu_kernels_for(const at::Tensor& mask) {
  const MaskKernels* cuda = cuda_mask_kernels();
  const bool is_there = cuda != nullptr && mask.is_cuda() &&
                        cuda->reaches(mask.data_ptr<float>());
  return is_there ? cuda : nullptr;
}

}  // namespace

void fill_philox_mask(const at::Tensor& mask, double p, std::uint64_t key) {
  SLUICE_CHECK(mask.scalar_type() == at::kFloat, "a mask of {}",
               c10::toString(mask.scalar_type()));
  if (mask.numel() == 0) return;
  if (!mask.is_contiguous() && !has_channels_last(mask)) {
    const at::Tensor drawn = at::empty(mask.sizes(), mask.options());
    fill_philox_mask(drawn, p, key);
    mask.copy_(drawn);
    return;
  }
  const MaskRule rule = mask_rule(p, key);
  if (mask.is_cpu()) return fill_on_cpu(rule, mask);
  if (const MaskKernels* kernels = gpu_kernels_for(mask))
    return fill_on_gpu(*kernels, rule, mask);
  // Pinned memory: the host would wait for a copy from other memory.
  const at::Tensor drawn =
      at::empty_strided(mask.sizes(), mask.strides(),
                        at::TensorOptions(at::kFloat).pinned_memory(true));
  fill_on_cpu(rule, drawn);
  mask.copy_(drawn, /*non_blocking=*/true);
}

}  // namespace sluice
