#pragma once

#include <memory>
#include <string_view>

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "auxiliary_heads/heads.h"
#include "lib/blocks/loss.h"

namespace sluice {

inline Loss cross_entropy_loss() {
  Fields none(nullptr, "loss");
  return find_row(losses(), "cross_entropy", "loss").make(none).training;
}

inline BoundarySite site_of(SampleShape features, std::int64_t classes = 3) {
  return {.block = 1,
          .blocks = 2,
          .layer = 4,
          .features = std::move(features),
          .classes = classes,
          .loss = cross_entropy_loss(),
          .seed = 11};
}

inline std::shared_ptr<Head> make_head(std::string_view name,
                                       const BoundarySite& site,
                                       const ConfigNode& options = {}) {
  Fields fields(&options, "head");
  const MakeHead make = find_row(heads(), name, "head").make(fields);
  fields.finish();
  return make(site);
}

/// Features of 6 samples, as a leaf that asks for its gradient.
inline at::Tensor features_of(const SampleShape& shape,
                              std::string_view purpose = "features") {
  std::vector<std::int64_t> sizes = {6};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return at::randn(sizes, Pass{}.generator(purpose)).requires_grad_();
}

inline at::Tensor six_labels() {
  return at::tensor({0, 1, 2, 0, 1, 0}, at::kLong);
}

/// For six samples of features [N, ...]: [6], or of texts a label a place.
inline at::Tensor labels_for(const at::Tensor& features) {
  const at::Tensor labels = six_labels();
  if (features.dim() != 3) return labels;
  return (labels.unsqueeze(1) + at::arange(features.size(1))).remainder(3);
}

}  // namespace sluice
