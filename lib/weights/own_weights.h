#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/weights/weight_view.h"

namespace sluice {

/// Forwards each batch on weights of its own, which its backward sees too: an
/// exact gradient at those weights. They lie in twins of the block that are
/// used again; BatchNorm's statistics are the block's.
class OwnWeights : public WeightView {
 public:
  explicit OwnWeights(Block& block) : block_(block) {}

  Tensors forward(Flight& flight) override;
  Graph graph_of(Flight& flight, std::int64_t version) override;
  Tensors weights_of(const Flight& flight) const override;
  std::int64_t stashed_bytes(const Flight& flight) const override;
  void restore(Flight& flight, const Tensors& weights) override;

 protected:
  /// The weights to forward the batch with; the view copies them.
  virtual Tensors weights_for(const Flight& flight) const = 0;
  const Block& block() const { return block_; }

 private:
  Tensors forward_on(const Tensors& weights, Flight& flight);

  Block& block_;
  std::vector<std::shared_ptr<Block>> free_;
};

}  // namespace sluice
