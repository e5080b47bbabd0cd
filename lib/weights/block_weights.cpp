#include "lib/weights/block_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/base/memory/account.h"

namespace sluice {

Tensors forward_with_graph(Block& block, Flight& flight) {
  const std::int64_t before = charged_by_this_thread();
  Tensors outputs = block.forward(flight.inputs, flight.pass);
  flight.graph_bytes = charged_by_this_thread() - before;
  return outputs;
}

Tensors copied_weights(const Block& block) {
  Tensors copies;
  for (const auto& [name, parameter] : block.parameters())
    copies.push_back(parameter.detach().clone());
  return copies;
}

void overwrite_weights(const Tensors& weights, Block& block) {
  SLUICE_CHECK(weights.size() == block.parameters().size(),
               "{} weights for the {} of block {}", weights.size(),
               block.parameters().size(), block.index());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights.size(); ++i)
    block.parameters()[i].second.variable_data().copy_(weights[i]);
}

}  // namespace sluice
