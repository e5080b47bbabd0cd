// DRTP, direct random target projection: Frenkel, Lefebvre, Bol 2021,
// Frontiers in Neuroscience 15:629892, arXiv:1909.01311. The gradient at h_k is
// a fixed random projection of the one-hot label: no head, nothing from above.
#include <cmath>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/random.h"
#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {
namespace {

class TargetProjection final : public Lower {
 public:
  TargetProjection(const BoundarySite& site, double scale)
      : layer_(site.layer),
        key_(random_key({site.seed, static_cast<std::uint64_t>(site.layer),
                         key_part("target_projection")})),
        classes_(site.classes),
        scale_(scale) {}

  Traits traits() const override {
    return {.cut = true, .from_above = false, .own = true};
  }

  Signal signal(const BatchContext& context) override {
    const at::Tensor labels = context.labels.flatten();
    Signal signal;
    for (std::size_t i = 0; i < context.features.size(); ++i) {
      const at::Tensor& feature = context.features[i];
      const at::Tensor rows = projection(i, feature.numel() / labels.numel())
                                  .to(feature.device())
                                  .index_select(0, labels);
      // Scaled like the gradient of a mean over the labels, as every loss here
      // is one.
      signal.gradients.push_back(at::empty_like(feature).copy_(
          rows.view(feature.sizes())
              .div(static_cast<double>(labels.numel()) / context.share)));
    }
    return signal;
  }

  NamedTensors constants(const Tensors& features,
                         const at::Tensor& labels) override {
    NamedTensors all;
    for (std::size_t i = 0; i < features.size(); ++i)
      all.emplace_back(
          fmt::format("projections.{}.{}", layer_, i),
          projection(i, features[i].numel() / labels.numel()).clone());
    return all;
  }

 private:
  /// B_k, [classes, width]: uniform in +- scale sqrt(6 / width), as the
  /// authors' code initialises it. A function of seed and layer, so that no
  /// checkpoint needs it.
  const at::Tensor& projection(std::size_t feature, std::int64_t width) {
    if (feature < projections_.size()) return projections_[feature];
    KeyedRandom random(random_key({key_, feature}));
    const double bound = scale_ * std::sqrt(6.0 / static_cast<double>(width));
    std::vector<float> values(static_cast<std::size_t>(classes_ * width));
    for (float& value : values)
      value = static_cast<float>(random.uniform(-bound, bound));
    return projections_.emplace_back(
        at::tensor(values).view({classes_, width}));
  }

  std::int64_t layer_;
  std::uint64_t key_;
  std::int64_t classes_;
  double scale_;
  std::vector<at::Tensor> projections_;
};

}  // namespace

MakeBoundary configure_target_projection(Fields& options, const PlugIns&) {
  double scale = 1;
  options.key(
      "scale", scale,
      {.text = "factor by which the random matrix is multiplied", .min = 0});
  return [scale](const BoundarySite& site) {
    check_labels_are_classes(
        site, fmt::format("target_projection above block {}", site.block));
    return std::make_unique<TargetProjection>(site, scale);
  };
}

MethodPage describe_target_projection() {
  return {
      .source =
          "DRTP: Frenkel, Lefebvre, Bol, \"Learning Without Feedback\", "
          "Frontiers in Neuroscience 2021, arXiv:1909.01311. What pushes a "
          "unit never ceases: wants activations that saturate (tanh), or "
          "BatchNorm",
      .kept = "the graph of one batch; a fixed matrix of classes x features",
      .batch_norm = "statistics move in the forward, once per batch",
      .randomness =
          "the matrix follows from seed and layer; masks are those of the "
          "forward",
      .staleness = "none: d_batch = d_upd = 0"};
}

}  // namespace sluice
