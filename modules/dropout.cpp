#include "modules/dropout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// 0 or 1 / (1 - p), shaped, typed and laid out like `input`.
at::Tensor mask_like(const at::Tensor& input, double p,
                     const at::Generator& generator) {
  const at::Tensor drawn = at::empty(input.sizes(), at::kFloat);
  drawn.bernoulli_(1 - p, generator).div_(1 - p);
  if (input.is_contiguous()) return drawn.to(input.options());
  // A mask with other strides than the input would make the product slow.
  return at::empty_like(input).copy_(drawn);
}

}  // namespace

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0 && p < 1))
    throw UserError("dropout {}: must be at least 0 and below 1", p);
}

Tensors Dropout::forward(const Tensors& inputs, const Pass& pass) {
  if (p_ == 0 || !pass.training || !is_training()) return inputs;
  SLUICE_CHECK(inputs.size() == 1, "dropout takes one tensor, not {}",
               inputs.size());
  const at::Tensor& input = inputs.front();
  return {input * mask_like(input, p_, pass.generator("dropout"))};
}

}  // namespace sluice
