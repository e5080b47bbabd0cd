#include "lib/workers/exchanges/published.h"

#include <ATen/ATen.h>

#include "lib/updates/grouped.h"

namespace sluice {

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors)
    copies.push_back(tensor.detach().clone());
  return copies;
}

Tensors laid_out_like(const NamedTensors& tensors, const Tensors& gradients) {
  Tensors all(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      all[i] = gradient_for(tensors.at(i).second, gradients[i]);
  return all;
}

Tensors storage_of(const NamedTensors& tensors) {
  Tensors all;
  for (const auto& [name, tensor] : tensors)
    all.push_back(tensor.variable_data());
  return all;
}

}  // namespace sluice
