#include "lib/weights/double_forward.h"

#include <optional>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/weights/block_weights.h"

namespace sluice {

Tensors DoubleForward::forward(Flight& flight) {
  const at::NoGradGuard no_grad;
  Tensors outputs = run(flight, StatisticsPass::replay);
  flight.graph_bytes = 0;  // of this pass there is none
  return outputs;
}

Graph DoubleForward::graph_of(Flight& flight) {
  return {run(flight, StatisticsPass::forward), values_of(block_.parameters())};
}

/// Statistics stay as they are when the other pass alone moves them.
Tensors DoubleForward::run(Flight& flight, StatisticsPass other) {
  std::optional<BufferGuard> kept;
  if (statistics_ == other) kept.emplace(block_);
  return forward_with_graph(block_, flight);
}

}  // namespace sluice
