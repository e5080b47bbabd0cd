#pragma once

#include "lib/tensors/tensors.h"

namespace sluice {

/// `above` (undefined: 0) plus the squared 2-norms of the gradients, as one
/// double on their device. On the CPU they are added last one first, so that
/// adding block by block from the top down gives the same bits for any cut. On
/// a GPU they are added there, in an order of its own, and the host doesn't
/// wait. Undefined gradients count as 0.
at::Tensor squared_norm(const Tensors& gradients, const at::Tensor& above = {});

/// Scales the gradients by limit / (norm + 1e-6) when that is below 1, as
/// torch::nn::utils::clip_grad_norm_ does; on a GPU else by 1, for the host
/// doesn't know. `norm`: a double on their device.
void clip_to(double limit, const at::Tensor& norm, Tensors& gradients);

}  // namespace sluice
