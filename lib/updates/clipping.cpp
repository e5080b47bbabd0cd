#include "lib/updates/clipping.h"

#include <ATen/ATen.h>

namespace sluice {

double squared_norm(const Tensors& gradients, double above) {
  double sum = above;
  for (auto gradient = gradients.rbegin(); gradient != gradients.rend();
       ++gradient) {
    if (!gradient->defined()) continue;
    const auto norm =
        at::linalg_vector_norm(*gradient, 2, {}, false, at::kDouble)
            .item<double>();
    sum += norm * norm;
  }
  return sum;
}

void clip_to(double limit, double norm, Tensors& gradients) {
  const double factor = limit / (norm + 1e-6);
  if (factor >= 1) return;
  for (at::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient * factor;
}

}  // namespace sluice
