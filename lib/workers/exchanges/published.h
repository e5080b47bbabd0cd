#pragma once

#include "lib/tensors/tensors.h"

namespace sluice {

/// Copies, which others may read while the originals change.
Tensors copies_of(const Tensors& tensors);
/// Gradients in the memory order of the tensors that they are of.
Tensors laid_out_like(const NamedTensors& tensors, const Tensors& gradients);
/// Aliases, to be written behind the back of autograd.
Tensors storage_of(const NamedTensors& tensors);

}  // namespace sluice
