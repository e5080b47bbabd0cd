#include "lib/gradients.h"

#include <torch/autograd.h>

#include "lib/precision.h"

namespace sluice {

Tensors gradients_at(const Tensors& targets, const Tensors& outputs,
                     const Tensors& signal) {
  if (targets.empty()) return {};
  const FullPrecisionScope full_precision;
  return torch::autograd::grad(outputs, targets, signal,
                               /*retain_graph=*/std::nullopt,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace sluice
