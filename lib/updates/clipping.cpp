#include "lib/updates/clipping.h"

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

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

bool is_on_gpu(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_cpu();
}

std::vector<std::size_t> places_on_gpu(const Tensors& gradients) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (is_on_gpu(gradients[i])) places.push_back(i);
  return places;
}

Tensors at_places(const Tensors& gradients,
                  const std::vector<std::size_t>& places) {
  Tensors there;
  for (const std::size_t i : places) there.push_back(gradients[i]);
  return there;
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
  const std::vector<std::size_t> places = places_on_gpu(gradients);
  if (places.empty()) return;
  const Tensors there = at_places(gradients, places);
  const at::Tensor factor =
      (limit / (norm + 1e-6)).clamp_max(1).to(there.front().scalar_type());
  const Tensors clipped = at::_foreach_mul(there, factor);
  for (std::size_t i = 0; i < places.size(); ++i)
    gradients[places[i]] = clipped[i];
}

}  // namespace

at::Tensor squared_norm(const Tensors& gradients, const at::Tensor& above) {
  const std::vector<std::size_t> places = places_on_gpu(gradients);
  if (!places.empty())
    return squared_norm_on_gpu(at_places(gradients, places), above);
  if (is_on_gpu(above)) return above;  // no gradient is defined
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
  if (options.optimizer.clip_norm <= 0) return nullptr;
  return std::make_unique<Clip>(options.optimizer.clip_norm);
}

}  // namespace sluice
