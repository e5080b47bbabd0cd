// PipeMare's discrepancy correction (Yang et al., MLSys 2021, arXiv:1910.05124,
// technique T2): as `mixed`, but the backward sees u = w - s d, about the
// weights of the forward, where s are the updates since then and d is the
// velocity of the weights, d = c d + (1 - c) (change by an update). c =
// decay^(1/s): s updates later a change still counts by `decay`.
#include <cmath>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/tensors/gpu/staging.h"
#include "lib/weights/block_weights.h"
#include "lib/weights/weight_versions.h"

namespace sluice {
namespace {

class ExtrapolatedView final : public WeightView {
 public:
  explicit ExtrapolatedView(const WeightViewSite& site)
      : block_(site.block),
        decay_(site.weights.decay),
        saved_(site.saved),
        versions_(block_),
        of_graphs_(versions_.copy_of(values_of(block_.parameters()))) {}

  Tensors forward(Flight& flight) override {
    if (saved_) flight.weights = copied_weights(block_);
    return forward_on(values_of(block_.parameters()), flight);
  }

  Graph graph_of(Flight& flight, std::int64_t version) override {
    updates_between_ = version - flight.version;
    overwrite_weights(extrapolated(), *of_graphs_);
    return {std::move(flight.outputs), values_of(of_graphs_->parameters())};
  }

  void before_update(std::int64_t /*version*/) override {
    before_ = versions_.today();
  }

  Tensors next_weights() override { return versions_.next(); }

  void after_update() override {
    const at::NoGradGuard no_grad;
    const Tensors before = values_of(before_->parameters());
    const Tensors now = values_of(block_.parameters());
    const double past = share_of_past();
    velocity_.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      const at::Tensor change = (now[i] - before[i]) * (1 - past);
      velocity_[i] =
          velocity_[i].defined() ? velocity_[i] * past + change : change;
    }
    before_.reset();
  }

  Tensors weights_of(const Flight& flight) const override {
    return flight.weights;
  }

  std::int64_t kept_bytes() const override {
    return versions_.held_bytes() + bytes_of(velocity_);
  }

  void restore(Flight& flight, const Tensors& weights) override {
    const BufferGuard kept(block_);
    if (saved_) flight.weights = weights;
    forward_on(weights, flight);
  }

  void save(const std::string& name, NamedTensors& all) const override {
    save_list(velocity_, name + ".velocity", all);
  }

  void restore(const std::string& name, const SavedState& saved) override {
    if (saved.has(name + ".velocity.count"))
      velocity_ = on_device(saved.list(name + ".velocity"), block_.device());
  }

 private:
  Tensors forward_on(const Tensors& weights, Flight& flight) {
    overwrite_weights(weights, *of_graphs_);
    flight.outputs = forward_with_graph(*of_graphs_, flight);
    return flight.outputs;
  }

  Tensors extrapolated() const {
    const at::NoGradGuard no_grad;
    Tensors weights = values_of(block_.parameters());
    if (velocity_.empty()) return weights;
    const auto steps = static_cast<double>(updates_between_);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = at::sub(weights[i], velocity_[i], steps);
    return weights;
  }

  /// The first update has none, and is the velocity.
  double share_of_past() const {
    if (updates_between_ <= 0) return 0;
    return std::pow(decay_, 1.0 / static_cast<double>(updates_between_));
  }

  Block& block_;
  double decay_;
  bool saved_;
  WeightVersions versions_;
  /// Holds what graphs refer to: the weights of the forward that is under way,
  /// then those of the backward.
  std::shared_ptr<Block> of_graphs_;
  std::shared_ptr<Block> before_;     // an update
  std::int64_t updates_between_ = 0;  // forward and backward, of the latest one
  Tensors velocity_;                  // a change by an update; empty: none yet
};

}  // namespace

std::unique_ptr<WeightView> make_extrapolate(const WeightViewSite& site) {
  return std::make_unique<ExtrapolatedView>(site);
}

}  // namespace sluice
