#pragma once

#include <cstdint>
#include <memory>

#include "lib/weights/weight_versions.h"
#include "lib/weights/weight_view.h"

namespace sluice {

/// Forwards each batch on a version of the weights that its backward sees too:
/// an exact gradient at those weights.
class OwnWeights : public WeightView {
 public:
  explicit OwnWeights(Block& block) : block_(block), versions_(block) {}

  Tensors forward(Flight& flight) override;
  Graph graph_of(Flight& flight, std::int64_t version) override;
  Tensors next_weights() override { return versions_.next(); }
  Tensors weights_of(const Flight& flight) const override;
  std::int64_t kept_bytes() const override { return versions_.held_bytes(); }
  void restore(Flight& flight, const Tensors& weights) override;

 protected:
  /// Weights for the batch, which are copied; empty: the block's as they are,
  /// which are not.
  virtual Tensors weights_for(const Flight& flight) const = 0;
  const Block& block() const { return block_; }

 private:
  Tensors forward_on(std::shared_ptr<Block> weights, Flight& flight);

  Block& block_;
  WeightVersions versions_;
};

}  // namespace sluice
