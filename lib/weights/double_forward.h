#pragma once

#include "lib/weights/weight_view.h"

namespace sluice {

/// The two forwards of a batch of which the block keeps no graph: one when it
/// comes, and one at its backward. BatchNorm's statistics move in the pass that
/// StatisticsPass says.
class DoubleForward {
 public:
  /// The block outlives this object.
  DoubleForward(Block& block, StatisticsPass statistics)
      : block_(block), statistics_(statistics) {}

  /// The first forward, without a graph.
  Tensors forward(Flight& flight);
  /// Graph of the second forward, of the flight's inputs as they are then.
  Graph graph_of(Flight& flight);

 private:
  Tensors run(Flight& flight, StatisticsPass other);

  Block& block_;
  StatisticsPass statistics_;
};

}  // namespace sluice
