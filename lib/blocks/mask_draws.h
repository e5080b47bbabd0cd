#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Random masks of a forward whose operations are captured in a graph
/// (lib/tensors/gpu/device_graph.h): tensors that the graph reads, and that are
/// filled anew before each replay.
class MaskDraws {
 public:
  /// Draws a mask of that batch, in place.
  using Fill = std::function<void(const at::Tensor& mask, std::int64_t batch)>;

  /// The mask that the forward goes on with; `mask` or one that lies like it.
  at::Tensor add(const at::Tensor& mask, Fill fill);
  void draw(std::int64_t batch) const;
  bool empty() const { return draws_.empty(); }
  /// Forgets the draws, for a capture of the same forward, which gets masks in
  /// memory that is no graph's: in a graph's, operations before a mask is
  /// needed may use it for something else.
  void begin_again();

 private:
  struct Draw {
    at::Tensor mask;
    Fill fill;
  };
  std::vector<Draw> draws_;
  Tensors places_;  // of masks, in the order of the draws
};

}  // namespace sluice
