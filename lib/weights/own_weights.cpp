#include "lib/weights/own_weights.h"

#include <utility>

#include "lib/weights/block_weights.h"

namespace sluice {

Tensors OwnWeights::forward(Flight& flight) {
  const Tensors weights = weights_for(flight);
  return forward_on(
      weights.empty() ? versions_.today() : versions_.copy_of(weights), flight);
}

Tensors OwnWeights::forward_on(std::shared_ptr<Block> weights, Flight& flight) {
  flight.block = std::move(weights);
  flight.outputs = forward_with_graph(*flight.block, flight);
  return flight.outputs;
}

Graph OwnWeights::graph_of(Flight& flight, std::int64_t /*version*/) {
  return {std::move(flight.outputs), values_of(flight.block->parameters())};
}

Tensors OwnWeights::weights_of(const Flight& flight) const {
  return copied_weights(*flight.block);
}

void OwnWeights::restore(Flight& flight, const Tensors& weights) {
  const BufferGuard kept(block_);
  forward_on(versions_.copy_of(weights), flight);
}

}  // namespace sluice
