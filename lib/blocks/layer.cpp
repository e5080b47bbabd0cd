#include "lib/blocks/layer.h"

#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

/// The last part of a dotted name: "weight" of "norm.weight".
std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// Number of inputs of an output, by the weight [out, in, kernel ...].
std::int64_t fan_in(const at::Tensor& weight) {
  return weight.numel() / weight.size(0);
}

/// Drawn contiguous on the CPU and then copied, so that neither the device nor
/// the strides of the parameter change its values.
void set_uniform(at::Tensor& parameter, std::int64_t inputs,
                 std::uint64_t key) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
  const at::Tensor values = at::empty(
      parameter.sizes(), at::TensorOptions().dtype(parameter.scalar_type()));
  values.uniform_(-bound, bound, at::make_generator<at::CPUGeneratorImpl>(key));
  parameter.copy_(values);
}

/// The range of a bias follows from the weight beside it, if that is a matrix.
void set_bias(at::Tensor& bias, const at::Tensor* weight, std::uint64_t key) {
  if (weight != nullptr && weight->dim() >= 2) {
    set_uniform(bias, fan_in(*weight), key);
  } else {
    bias.zero_();
  }
}

}  // namespace

std::uint64_t Pass::key(std::string_view purpose) const {
  if (draws != nullptr)
    throw UserError(
        "layer {} draws random numbers ({}) that a graph would give again for "
        "each batch: set graphs = false{}",
        layer, purpose,
        masks == Masks::generator ? ", or masks = \"philox\"" : "");
  return random_key({seed, static_cast<std::uint64_t>(layer),
                     static_cast<std::uint64_t>(batch), key_part(purpose)});
}

at::Generator Pass::generator(std::string_view purpose) const {
  return at::make_generator<at::CPUGeneratorImpl>(key(purpose));
}

Tensors Layer::inverse(const Tensors& /*outputs*/, const Pass& pass) {
  throw InternalError("layer {} has no inverse", pass.layer);
}

void Layer::initialise(std::uint64_t key) {
  initialise_parameters(*this, key);
}

void initialise_parameters(torch::nn::Module& module, std::uint64_t key) {
  const c10::NoGradGuard no_grad;
  const auto parameters = module.named_parameters();
  for (const auto& item : parameters) {
    const std::string& name = item.key();
    const std::string_view kind = last_part(name);
    at::Tensor parameter = item.value();
    if (parameter.numel() == 0) continue;
    const std::uint64_t own_key = random_key({key, key_part(name)});
    if (parameter.dim() >= 2) {
      set_uniform(parameter, fan_in(parameter), own_key);
    } else if (parameter.dim() == 1 && kind == "weight") {
      parameter.fill_(1);
    } else if (parameter.dim() == 1 && kind == "bias") {
      const std::string owner(name, 0, name.size() - kind.size());
      set_bias(parameter, parameters.find(owner + "weight"), own_key);
    } else {
      throw InternalError(
          "no rule initialises parameter '{}' of {} dimensions: there are "
          "matrices, and vectors called 'weight' or 'bias'; override "
          "Layer::initialise",
          name, parameter.dim());
    }
  }
}

}  // namespace sluice
