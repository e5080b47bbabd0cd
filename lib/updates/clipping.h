#pragma once

#include "lib/tensors/tensors.h"

namespace sluice {

/// `above` plus the squared 2-norms of the gradients, last one first, in
/// double: adding block by block from the top down gives the same bits for any
/// cut. Undefined gradients count as 0.
double squared_norm(const Tensors& gradients, double above);

/// Scales the gradients by limit / (norm + 1e-6) when that is below 1, as
/// torch::nn::utils::clip_grad_norm_ does.
void clip_to(double limit, double norm, Tensors& gradients);

}  // namespace sluice
