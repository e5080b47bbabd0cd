#include "lib/updates/clipping.h"

#include <optional>

#include <ATen/ATen.h>

#include "lib/tensors/graphed_function.h"
#include "lib/tensors/on_gpu.h"
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
  Clip(double limit, bool graphs) : limit_(limit) {
    if (graphs) graph_.emplace();
  }

  void apply(Tensors& gradients, UpdateInfo& info) override {
    if (!graph_) return clip(gradients, info.model_norm);
    Tensors operands = gradients;
    operands.push_back(info.model_norm);
    gradients = (*graph_)(operands, [this](const Tensors& given) {
      Tensors clipped(given.begin(), given.end() - 1);
      clip(clipped, given.back());
      return clipped;
    });
  }

 private:
  void clip(Tensors& gradients, const at::Tensor& model_norm) const {
    const at::Tensor norm =
        model_norm.defined() ? model_norm : squared_norm(gradients).sqrt();
    clip_to(limit_, norm, gradients);
  }

  double limit_;
  std::optional<GraphedFunction> graph_;
};

}  // namespace

std::unique_ptr<Transform> make_clip(const UpdateOptions& options,
                                     const NamedTensors& /*parameters*/) {
  if (options.optimizer.clip_norm <= 0 || options.clipped) return nullptr;
  return std::make_unique<Clip>(options.optimizer.clip_norm, options.graphs);
}

}  // namespace sluice
