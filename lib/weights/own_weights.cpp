#include "lib/weights/own_weights.h"

#include <utility>

#include "lib/weights/block_weights.h"

namespace sluice {

Tensors OwnWeights::forward(Flight& flight) {
  return forward_on(weights_for(flight), flight);
}

Tensors OwnWeights::forward_on(const Tensors& weights, Flight& flight) {
  if (free_.empty()) {
    flight.block = std::make_shared<Block>(block_.twin());
    flight.block->share_buffers(block_);
  } else {
    flight.block = std::move(free_.back());
    free_.pop_back();
  }
  overwrite_weights(weights, *flight.block);
  flight.outputs = forward_with_graph(*flight.block, flight);
  return flight.outputs;
}

Graph OwnWeights::graph_of(Flight& flight, std::int64_t /*version*/) {
  // The next forward comes after this backward, so it may have the twin.
  free_.push_back(flight.block);
  return {std::move(flight.outputs), values_of(flight.block->parameters())};
}

Tensors OwnWeights::weights_of(const Flight& flight) const {
  return copied_weights(*flight.block);
}

std::int64_t OwnWeights::stashed_bytes(const Flight& flight) const {
  return flight.block ? bytes_of(values_of(flight.block->parameters())) : 0;
}

void OwnWeights::restore(Flight& flight, const Tensors& weights) {
  const BuffersKept kept(block_);
  forward_on(weights, flight);
}

}  // namespace sluice
