#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lib/weights/weight_versions.h"
#include "lib/weights/weight_view.h"

namespace sluice {

/// Forwards each batch on a version of the weights that need not be the latest,
/// and goes backward on the same: versions are kept by their numbers as long as
/// a batch to come may ask for them.
class KeptVersions : public WeightView {
 public:
  explicit KeptVersions(Block& block) : block_(block), storage_(block) {}

  Tensors forward(Flight& flight) override;
  Graph graph_of(Flight& flight, std::int64_t version) override;
  void before_update(std::int64_t version) override { keep(version); }
  Tensors next_weights() override { return storage_.next(); }
  std::int64_t kept_bytes() const override { return storage_.held_bytes(); }
  Tensors weights_of(const Flight& flight) const override;
  void restore(Flight& flight, const Tensors& weights) override;
  void save(const std::string& name, NamedTensors& all) const override;
  void restore(const std::string& name, const SavedState& saved) override;

 protected:
  /// The version that the batch sees, of those that are kept or the latest,
  /// which is flight.version.
  virtual std::int64_t version_for(const Flight& flight) = 0;
  /// Weights to keep as that version, which the block's weights now have: other
  /// weights, which are copied, or those as they are, which are not; then
  /// empty.
  virtual Tensors weights_to_keep(std::int64_t /*version*/) const { return {}; }
  /// Batches to come are of this version or a later one.
  void forget_before(std::int64_t version);
  /// The earliest one that is kept; `otherwise` if none is.
  std::int64_t first_or(std::int64_t otherwise) const;

 private:
  void keep(std::int64_t version);

  Block& block_;
  WeightVersions storage_;
  std::map<std::int64_t, std::shared_ptr<Block>> versions_;
};

}  // namespace sluice
