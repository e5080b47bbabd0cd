// PipeDream-2BW's two buffered weights (Narayanan et al. 2021,
// arXiv:2006.09503, section 3.1): the batches of window j go forward and
// backward at the weights after j - 1 updates, in every block,
// w_{j+1} = w_j - rate * gradient(w_{j-1}), so that the next window may begin
// before this one's update. What a batch sees depends on its window alone, and
// not on when the block does it.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/weights/block_weights.h"
#include "lib/weights/weight_versions.h"

namespace sluice {
namespace {

class DoubleBuffer final : public WeightView {
 public:
  explicit DoubleBuffer(Block& block) : block_(block), storage_(block) {}

  Tensors forward(Flight& flight) override {
    const std::int64_t now = flight.version;
    if (first_ < 0) first_ = now;
    flight.version =
        std::max<std::int64_t>(now + flight.updates_ahead - 1, first_);
    if (flight.version == now) keep(now);
    const auto kept = versions_.find(flight.version);
    SLUICE_CHECK(kept != versions_.end(),
                 "block {} has no weights of version {} for batch {}: it is at "
                 "{}",
                 block_.index(), flight.version, flight.pass.batch, now);
    flight.block = kept->second;
    flight.outputs = forward_with_graph(*flight.block, flight);
    return flight.outputs;
  }

  Graph graph_of(Flight& flight, std::int64_t /*version*/) override {
    return {std::move(flight.outputs), values_of(flight.block->parameters())};
  }

  void before_update(std::int64_t version) override {
    keep(version);
    // Batches still to come are of this version or a later one.
    versions_.erase(versions_.begin(), versions_.find(version));
  }

  Tensors next_weights() override { return storage_.next(); }

  std::int64_t kept_bytes() const override { return storage_.held_bytes(); }

  Tensors weights_of(const Flight& flight) const override {
    return copied_weights(*flight.block);
  }

  void restore(Flight& flight, const Tensors& weights) override {
    const BuffersKept kept(block_);
    flight.block = versions_.contains(flight.version)
                       ? versions_.at(flight.version)
                       : storage_.copy_of(weights);
    flight.outputs = forward_with_graph(*flight.block, flight);
  }

  void save(const std::string& name, NamedTensors& all) const override {
    for (const auto& [version, kept] : versions_)
      save_list(copied_weights(*kept), fmt::format("{}.{}", name, version),
                all);
  }

  void restore(const std::string& name, const SavedState& saved) override {
    for (const std::int64_t version : saved.numbers_below(name))
      versions_[version] =
          storage_.copy_of(saved.list(fmt::format("{}.{}", name, version)));
    if (!versions_.empty()) first_ = versions_.begin()->first;
  }

 private:
  void keep(std::int64_t version) {
    if (!versions_.contains(version)) versions_[version] = storage_.today();
  }

  Block& block_;
  WeightVersions storage_;
  /// No batch sees an earlier version: that with which the run began, or a
  /// phase, or what continues a checkpoint that has none.
  std::int64_t first_ = -1;
  std::map<std::int64_t, std::shared_ptr<Block>> versions_;
};

}  // namespace

std::unique_ptr<WeightView> make_double_buffer(const WeightViewSite& site) {
  return std::make_unique<DoubleBuffer>(site.block);
}

}  // namespace sluice
