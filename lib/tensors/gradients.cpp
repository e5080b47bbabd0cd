#include "lib/tensors/gradients.h"

#include <torch/autograd.h>

#include "lib/tensors/precision.h"

namespace sluice {

Tensors gradients_at(const Tensors& targets, const Tensors& outputs,
                     const Tensors& signal, bool keep_graph) {
  if (targets.empty()) return {};
  const FullPrecisionScope full_precision;
  return torch::autograd::grad(outputs, targets, signal,
                               /*retain_graph=*/keep_graph,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace sluice
