#include "lib/metrics/likeness.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {

Likeness likeness(const Tensors& applied, const Tensors& truth) {
  SLUICE_CHECK(applied.size() == truth.size(), "{} gradients against {}",
               applied.size(), truth.size());
  double product = 0;
  double of_applied = 0;
  double of_truth = 0;
  std::int64_t equal_signs = 0;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const at::Tensor& shape = truth[i].defined() ? truth[i] : applied[i];
    if (!shape.defined()) continue;
    const auto wide = [&](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.detach().to(at::kDouble)
                              : at::zeros_like(shape, at::kDouble);
    };
    const at::Tensor wanted = wide(truth[i]);
    const at::Tensor got = wide(applied[i]);
    product += (wanted * got).sum().item<double>();
    of_applied += got.square().sum().item<double>();
    of_truth += wanted.square().sum().item<double>();
    equal_signs += wanted.sign().eq(got.sign()).sum().item<std::int64_t>();
    elements += wanted.numel();
  }
  const double norm = std::sqrt(of_applied);
  const double true_norm = std::sqrt(of_truth);
  const bool any = norm > 0 && true_norm > 0;
  return {.cosine = any ? product / (norm * true_norm) : 0,
          .norm_ratio = true_norm > 0 ? norm / true_norm : 0,
          .sign_agreement =
              static_cast<double>(equal_signs) /
              static_cast<double>(std::max<std::int64_t>(elements, 1))};
}

Figures figures_of(const Likeness& likeness, const std::string& prefix) {
  return {{prefix + "cosine", likeness.cosine},
          {prefix + "norm_ratio", likeness.norm_ratio},
          {prefix + "sign_agreement", likeness.sign_agreement}};
}

}  // namespace sluice
