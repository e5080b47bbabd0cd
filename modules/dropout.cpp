#include "modules/dropout.h"

#include <algorithm>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// The sizes of a mask that `input` is multiplied with.
std::vector<std::int64_t> mask_sizes(const at::Tensor& input,
                                     DropoutUnit unit) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  if (unit == DropoutUnit::element) return sizes;
  SLUICE_CHECK(sizes.size() >= 2, "a dropout of channels on {} dimensions",
               sizes.size());
  std::fill(sizes.begin() + 2, sizes.end(), 1);
  return sizes;
}

/// 0 or 1 / (1 - p) for each unit.
at::Tensor draw_mask(const at::Tensor& input, double p, DropoutUnit unit,
                     const at::Generator& generator) {
  const at::Tensor drawn = at::empty(mask_sizes(input, unit), at::kFloat);
  return drawn.bernoulli_(1 - p, generator).div_(1 - p);
}

/// Of the input's type; for elements shaped and laid out like it.
at::Tensor as_input(const at::Tensor& drawn, const at::Tensor& input,
                    DropoutUnit unit) {
  if (unit == DropoutUnit::channel || input.is_contiguous())
    return drawn.to(input.options());
  // A mask with other strides than the input would make the product slow.
  return at::empty_like(input).copy_(drawn);
}

}  // namespace

Dropout::Dropout(double p, DropoutUnit unit) : p_(p), unit_(unit) {
  if (!(p >= 0 && p < 1))
    throw UserError("dropout {}: must be at least 0 and below 1", p);
}

Tensors Dropout::forward(const Tensors& inputs, const Pass& pass) {
  if (p_ == 0 || !pass.training || !is_training()) return inputs;
  SLUICE_CHECK(inputs.size() == 1, "dropout takes one tensor, not {}",
               inputs.size());
  const at::Tensor& input = inputs.front();
  const at::Tensor mask =
      draw_mask(input, p_, unit_, pass.generator("dropout"));
  if (watcher_) watcher_(mask);
  return {input * as_input(mask, input, unit_)};
}

}  // namespace sluice
