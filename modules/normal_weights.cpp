#include "modules/normal_weights.h"

#include <cmath>
#include <cstdint>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "lib/base/random.h"

namespace sluice {
namespace {

bool is_called_weight(std::string_view name) {
  return name.substr(name.rfind('.') + 1) == "weight";
}

/// Drawn contiguous on the CPU and then copied, so that neither the device nor
/// the strides of the weight change its values.
void set_normal(at::Tensor weight, double deviation, std::uint64_t key) {
  const at::Tensor values = at::empty(
      weight.sizes(), at::TensorOptions().dtype(weight.scalar_type()));
  values.normal_(0, deviation, at::make_generator<at::CPUGeneratorImpl>(key));
  weight.copy_(values);
}

}  // namespace

double fan_out_deviation(std::string_view /*name*/, const at::Tensor& kernel) {
  const std::int64_t fan_out = kernel.size(0) * kernel.size(2) * kernel.size(3);
  return std::sqrt(2.0 / static_cast<double>(fan_out));
}

double fan_in_deviation(std::string_view /*name*/, const at::Tensor& weight) {
  const std::int64_t fan_in = weight.numel() / weight.size(0);
  return std::sqrt(1.0 / static_cast<double>(fan_in));
}

void initialise_normal(torch::nn::Module& module, std::uint64_t key,
                       const Deviation& deviation) {
  const c10::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    at::Tensor parameter = item.value();
    if (parameter.dim() >= 2) {
      set_normal(parameter, deviation(name, parameter),
                 random_key({key, key_part(name)}));
    } else {
      parameter.fill_(is_called_weight(name) ? 1 : 0);
    }
  }
}

}  // namespace sluice
