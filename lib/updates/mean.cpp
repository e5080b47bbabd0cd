#include <ATen/ATen.h>

#include "lib/updates/transform.h"

namespace sluice {
namespace {

class Mean final : public Transform {
 public:
  void apply(Tensors& gradients, UpdateInfo& info) override {
    if (info.turns == 1) return;
    const auto turns = static_cast<double>(info.turns);
    if (info.model_norm) *info.model_norm /= turns;
    for (at::Tensor& gradient : gradients)
      if (gradient.defined()) gradient = gradient / turns;
  }
};

}  // namespace

std::unique_ptr<Transform> make_mean(const UpdateOptions& options,
                                     const NamedTensors& /*parameters*/) {
  if (!options.mean) return nullptr;
  return std::make_unique<Mean>();
}

}  // namespace sluice
