#include "lib/tensors/gradients.h"

#include <torch/autograd.h>

#include "lib/tensors/precision.h"

namespace sluice {

Tensors gradients_at(const Tensors& targets, const Tensors& outputs,
                     const Tensors& signal, bool keep_graph) {
  Tensors reached;
  Tensors its_signal;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    reached.push_back(outputs[i]);
    if (!signal.empty()) its_signal.push_back(signal[i]);
  }
  if (targets.empty() || reached.empty()) return Tensors(targets.size());
  const FullPrecisionScope full_precision;
  return torch::autograd::grad(reached, targets, its_signal,
                               /*retain_graph=*/keep_graph,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace sluice
