#include "lib/updates/clipping.h"

#include <ATen/ATen.h>

#include "lib/tensors/gpu/on_gpu.h"
#include "lib/updates/transform.h"

namespace sluice {
namespace {

double squared_norm_on_cpu(const Tensors& gradients, double above) {
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

void clip_on_cpu(double limit, double norm, Tensors& gradients) {
  const double factor = limit / (norm + 1e-6);
  if (factor >= 1) return;
  for (at::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient * factor;
}

at::Tensor squared_norm_on_gpu(const Tensors& gradients,
                               const at::Tensor& above) {
  const Tensors norms = at::_foreach_norm(gradients, 2, at::kDouble);
  const at::Tensor sum = at::stack(norms).square().sum();
  return above.defined() ? sum + above : sum;
}

/// Multiplied in the gradients' type, to which a factor on the host would be
/// rounded too.
void clip_on_gpu(double limit, const at::Tensor& norm, Tensors& gradients) {
  const TensorsOnGpu there = those_on_gpu(gradients);
  if (there.tensors.empty()) return;
  const at::Tensor factor = (limit / (norm + 1e-6))
                                .clamp_max(1)
                                .to(there.tensors.front().scalar_type());
  there.put(at::_foreach_mul(there.tensors, factor), gradients);
}

}  // namespace

at::Tensor squared_norm(const Tensors& gradients, const at::Tensor& above) {
  if (const TensorsOnGpu there = those_on_gpu(gradients);
      !there.tensors.empty())
    return squared_norm_on_gpu(there.tensors, above);
  // Undefined gradients only, of a block on a GPU.
  if (above.defined() && !above.is_cpu()) return above;
  return at::scalar_tensor(
      squared_norm_on_cpu(gradients,
                          above.defined() ? above.item<double>() : 0),
      at::kDouble);
}

void clip_to(double limit, const at::Tensor& norm, Tensors& gradients) {
  if (norm.is_cpu())
    clip_on_cpu(limit, norm.item<double>(), gradients);
  else
    clip_on_gpu(limit, norm, gradients);
}

namespace {

class Clip final : public Transform {
 public:
  explicit Clip(double limit) : limit_(limit) {}

  void apply(Tensors& gradients, UpdateInfo& info) override {
    const at::Tensor norm = info.model_norm.defined()
                                ? info.model_norm
                                : squared_norm(gradients).sqrt();
    clip_to(limit_, norm, gradients);
  }

 private:
  double limit_;
};

}  // namespace

std::unique_ptr<Transform> make_clip(const UpdateOptions& options,
                                     const NamedTensors& /*parameters*/) {
  if (options.optimizer.clip_norm <= 0 || options.clipped) return nullptr;
  return std::make_unique<Clip>(options.optimizer.clip_norm);
}

}  // namespace sluice
