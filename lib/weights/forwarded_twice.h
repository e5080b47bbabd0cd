#pragma once

#include "lib/weights/weight_view.h"

namespace sluice {

/// The two forwards of a batch of which the block keeps no graph: one when it
/// comes, and one at its backward. BatchNorm's statistics move in the pass that
/// StatisticsAt says.
class ForwardedTwice {
 public:
  /// The block outlives it.
  ForwardedTwice(Block& block, StatisticsAt statistics)
      : block_(block), statistics_(statistics) {}

  /// The first one: without a graph.
  Tensors forward(Flight& flight);
  /// The second one, of the flight's inputs as they are then.
  Graph graph_of(Flight& flight);

 private:
  Tensors run(Flight& flight, StatisticsAt other);

  Block& block_;
  StatisticsAt statistics_;
};

}  // namespace sluice
