#include "modules/dropout.h"

#include <algorithm>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "lib/base/error.h"
#include "lib/blocks/mask_draws.h"
#include "lib/tensors/philox_mask.h"

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

/// Masks::generator: contiguous, on the CPU.
at::Tensor draw_in_order(const at::Tensor& input, double p, DropoutUnit unit,
                         const at::Generator& generator) {
  const at::Tensor drawn = at::empty(mask_sizes(input, unit), at::kFloat);
  return drawn.bernoulli_(1 - p, generator).div_(1 - p);
}

/// The mask of a forward that is captured, filled before each replay.
at::Tensor draw_for_each_replay(const at::Tensor& mask, double p,
                                const Pass& pass) {
  Pass replayed = pass;
  replayed.draws = nullptr;
  return pass.draws->add(
      mask, [p, replayed](const at::Tensor& there, std::int64_t batch) {
        Pass today = replayed;
        today.batch = batch;
        fill_philox_mask(there, p, today.key("dropout"));
      });
}

/// Masks::philox: on the device of the input; for elements laid out like it.
at::Tensor draw_by_index(const at::Tensor& input, double p, DropoutUnit unit,
                         const Pass& pass) {
  const auto options = input.options().dtype(at::kFloat);
  at::Tensor drawn = unit == DropoutUnit::element
                         ? at::empty_like(input, options)
                         : at::empty(mask_sizes(input, unit), options);
  if (pass.draws != nullptr) return draw_for_each_replay(drawn, p, pass);
  fill_philox_mask(drawn, p, pass.key("dropout"));
  return drawn;
}

/// The mask in the input's type; one that has the input's shape also gets its
/// layout.
at::Tensor as_input(const at::Tensor& drawn, const at::Tensor& input,
                    DropoutUnit unit) {
  const bool is_laid_out = unit == DropoutUnit::channel ||
                           input.is_contiguous() ||
                           drawn.strides() == input.strides();
  if (is_laid_out) return drawn.to(input.options());
  // A mask with other strides than the input would make the product slow.
  return at::empty_like(input).copy_(drawn);
}

}  // namespace

Dropout::Dropout(double p, DropoutUnit unit) : p_(p), unit_(unit) {
  if (!(p >= 0 && p < 1))
    throw UserError("dropout {}: must be at least 0 and below 1", p);
}

at::Tensor Dropout::draw(const at::Tensor& input, const Pass& pass) const {
  if (pass.masks == Masks::generator)
    return draw_in_order(input, p_, unit_, pass.generator("dropout"));
  return draw_by_index(input, p_, unit_, pass);
}

Tensors Dropout::forward(const Tensors& inputs, const Pass& pass) {
  if (p_ == 0 || !pass.training || !is_training()) return inputs;
  SLUICE_CHECK(inputs.size() == 1, "dropout takes one tensor, not {}",
               inputs.size());
  const at::Tensor& input = inputs.front();
  const at::Tensor mask = draw(input, pass);
  if (watcher_) watcher_(mask);
  return {input * as_input(mask, input, unit_)};
}

}  // namespace sluice
