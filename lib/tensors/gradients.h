#pragma once

#include "lib/tensors/tensors.h"

namespace sluice {

/// The vector-Jacobian product of `outputs` with `signal`, at the targets;
/// undefined where an output does not depend on a target. An empty `signal`
/// stands for 1 at a scalar output. Outside autocast; frees the graph, unless
/// it is kept for another signal.
Tensors gradients_at(const Tensors& targets, const Tensors& outputs,
                     const Tensors& signal = {}, bool keep_graph = false);

}  // namespace sluice
