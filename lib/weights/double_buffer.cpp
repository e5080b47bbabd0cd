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

namespace sluice {
namespace {

class DoubleBuffer final : public WeightView {
 public:
  explicit DoubleBuffer(Block& block) : block_(block) {}

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
    while (versions_.begin()->first < version) {
      spare_.push_back(std::move(versions_.begin()->second));
      versions_.erase(versions_.begin());
    }
  }

  std::int64_t kept_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& [version, kept] : versions_)
      bytes += bytes_of(values_of(kept->parameters()));
    return bytes;
  }

  Tensors weights_of(const Flight& flight) const override {
    return copied_weights(*flight.block);
  }

  void restore(Flight& flight, const Tensors& weights) override {
    const BuffersKept kept(block_);
    flight.block = versions_.contains(flight.version)
                       ? versions_.at(flight.version)
                       : copy_of(weights);
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
          copy_of(saved.list(fmt::format("{}.{}", name, version)));
    if (!versions_.empty()) first_ = versions_.begin()->first;
  }

 private:
  void keep(std::int64_t version) {
    if (!versions_.contains(version))
      versions_[version] = copy_of(values_of(block_.parameters()));
  }

  std::shared_ptr<Block> copy_of(const Tensors& weights) {
    std::shared_ptr<Block> copy;
    if (spare_.empty()) {
      copy = std::make_shared<Block>(block_.twin());
      copy->share_buffers(block_);
    } else {
      copy = std::move(spare_.back());
      spare_.pop_back();
    }
    overwrite_weights(weights, *copy);
    return copy;
  }

  Block& block_;
  /// No batch sees an earlier version: that with which the run began, or a
  /// phase, or what continues a checkpoint that has none.
  std::int64_t first_ = -1;
  std::map<std::int64_t, std::shared_ptr<Block>> versions_;
  std::vector<std::shared_ptr<Block>> spare_;  // no batch is on them
};

}  // namespace

std::unique_ptr<WeightView> make_double_buffer(const WeightViewSite& site) {
  return std::make_unique<DoubleBuffer>(site.block);
}

}  // namespace sluice
