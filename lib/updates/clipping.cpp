#include "lib/updates/clipping.h"

#include <cmath>

#include <ATen/ATen.h>

#include "lib/updates/transform.h"

namespace sluice {

double squared_norm(const Tensors& gradients, double above) {
  double sum = above;
  for (auto gradient = gradients.rbegin(); gradient != gradients.rend();
       ++gradient) {
    if (!gradient->defined()) continue;
    const auto norm =
        at::linalg_vector_norm(*gradient, 2, {}, false, at::kDouble)
            .item<double>();
    sum += norm * norm;
  }
  return sum;
}

void clip_to(double limit, double norm, Tensors& gradients) {
  const double factor = limit / (norm + 1e-6);
  if (factor >= 1) return;
  for (at::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient * factor;
}

namespace {

class Clip final : public Transform {
 public:
  explicit Clip(double limit) : limit_(limit) {}

  void apply(Tensors& gradients, UpdateInfo& info) override {
    const double norm = info.model_norm ? *info.model_norm
                                        : std::sqrt(squared_norm(gradients, 0));
    clip_to(limit_, norm, gradients);
  }

 private:
  double limit_;
};

}  // namespace

std::unique_ptr<Transform> make_clip(const UpdateOptions& options,
                                     const NamedTensors& /*parameters*/) {
  if (options.optimizer.clip_norm <= 0) return nullptr;
  return std::make_unique<Clip>(options.optimizer.clip_norm);
}

}  // namespace sluice
