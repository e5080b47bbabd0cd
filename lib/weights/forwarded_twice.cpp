#include "lib/weights/forwarded_twice.h"

#include <optional>

#include <ATen/ATen.h>

#include "lib/weights/block_weights.h"

namespace sluice {

Tensors ForwardedTwice::forward(Flight& flight) {
  const at::NoGradGuard no_grad;
  Tensors outputs = run(flight, StatisticsAt::replay);
  flight.graph_bytes = 0;  // of this pass there is none
  return outputs;
}

Graph ForwardedTwice::graph_of(Flight& flight) {
  return {run(flight, StatisticsAt::forward), values_of(block_.parameters())};
}

/// Statistics stay as they are when the other pass alone moves them.
Tensors ForwardedTwice::run(Flight& flight, StatisticsAt other) {
  std::optional<BuffersKept> kept;
  if (statistics_ == other) kept.emplace(block_);
  return forward_with_graph(block_, flight);
}

}  // namespace sluice
