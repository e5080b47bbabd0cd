#include <ATen/ATen.h>

#include "lib/tensors/gpu/on_gpu.h"
#include "lib/updates/transform.h"

namespace sluice {
namespace {

/// Takes means over the turns of a window, where that is wanted, and over
/// replicas always.
class Mean final : public Transform {
 public:
  explicit Mean(bool over_turns) : over_turns_(over_turns) {}
  void apply(Tensors& gradients, UpdateInfo& info) override {
    const std::int64_t turns = (over_turns_ ? info.turns : 1) * info.replicas;
    if (turns == 1) return;
    const auto divisor = static_cast<double>(turns);
    if (info.model_norm.defined()) info.model_norm = info.model_norm / divisor;
    for (at::Tensor& gradient : gradients)
      if (gradient.defined() && gradient.is_cpu())
        gradient = gradient / divisor;
    if (const TensorsOnGpu there = those_on_gpu(gradients);
        !there.tensors.empty())
      there.put(at::_foreach_div(there.tensors, divisor), gradients);
  }
  bool takes_parts() const override { return true; }

 private:
  bool over_turns_;
};

}  // namespace

std::unique_ptr<Transform> make_mean(const UpdateOptions& options,
                                     const NamedTensors& /*parameters*/) {
  return std::make_unique<Mean>(options.mean);
}

}  // namespace sluice
