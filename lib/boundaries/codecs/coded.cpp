#include "lib/boundaries/codecs/coded.h"

#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/base/error.h"
#include "lib/tensors/dtypes.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"

namespace sluice {
namespace {

bool is_encoded(const at::Tensor& tensor, const Codec* codec) {
  return codec != nullptr && tensor.is_floating_point() &&
         codec->takes(tensor.scalar_type());
}

/// The view that keeps one element of each dimension of stride 0, from `first`
/// on.
at::Tensor without_repeats(at::Tensor tensor, std::int64_t first) {
  for (std::int64_t i = first; i < tensor.dim(); ++i)
    if (tensor.stride(i) == 0 && tensor.size(i) > 1)
      tensor = tensor.narrow(i, 0, 1);
  return tensor;
}

/// The first dimension that may be encoded once instead of repeated.
std::int64_t first_narrowed(const Coding& coding) {
  return coding.end != nullptr && coding.codec->wants_samples() ? 1 : 0;
}

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

CodedPlace place_of(const std::string& tensor, const Coding& coding) {
  return {.tensor = tensor, .slot = coding.slot, .samples = coding.samples};
}

Tensors encoded(const at::Tensor& tensor, const std::string& name,
                const Coding& coding) {
  const at::Tensor once =
      without_repeats(tensor.detach(), first_narrowed(coding));
  const at::Tensor values = dense(once.to(at::kFloat));
  Tensors parts = coding.end != nullptr
                      ? coding.end->encode(values, place_of(name, coding))
                      : coding.codec->encode(values);
  parts[0] = parts[0].expand(tensor.sizes());
  return parts;
}

bool can_expand(at::IntArrayRef from, at::IntArrayRef to) {
  if (from.size() != to.size()) return false;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i] && from[i] != 1) return false;
  return true;
}

at::Tensor decoded(Tensors parts, at::ScalarType type, const std::string& name,
                   const Coding& coding) {
  if (parts.empty())
    throw LinkError(
        "a tensor that codec {} should have encoded came without any part",
        coding.codec->name());
  const std::vector<std::int64_t> sizes = parts[0].sizes().vec();
  parts[0] = without_repeats(parts[0], first_narrowed(coding));
  const at::Tensor values =
      coding.end != nullptr ? coding.end->decode(parts, place_of(name, coding))
                            : coding.codec->decode(parts);
  if (!can_expand(values.sizes(), sizes))
    throw LinkError("what came is not a tensor as codec {} sends it",
                    coding.codec->name());
  return values.to(type).expand(sizes);
}

}  // namespace

void pack(const Tensors& tensors, std::string_view name, const Coding& coding,
          Message& message) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string own = fmt::format("{}.{}", name, i);
    if (!is_encoded(tensors[i], coding.codec)) {
      message.tensors.push_back(view_of(tensors[i], own));
      continue;
    }
    pack(encoded(tensors[i], own, coding), own, message);
    const auto type = at::TensorOptions(tensors[i].scalar_type());
    message.tensors.push_back(view_of(at::empty({0}, type), own + ".like"));
  }
}

Tensors unpack(const Message& message, std::string_view name,
               const Coding& coding, const c10::Device& device) {
  if (coding.codec == nullptr) return on_device(unpack(message, name), device);
  Tensors tensors;
  for (const TensorView& view : message.tensors) {
    const std::string next = fmt::format("{}.{}", name, tensors.size());
    if (view.name == next)
      tensors.push_back(on_device(tensor_of(view), device));
    else if (view.name == next + ".like")
      tensors.push_back(decoded(on_device(unpack(message, next), device),
                                scalar_type(view.dtype), next, coding));
  }
  return tensors;
}

Tensors masked(const Tensors& gradients, const Tensors& came,
               const Codec* codec) {
  const at::NoGradGuard no_grad;
  Tensors masked = gradients;
  for (std::size_t i = 0; i < masked.size(); ++i) {
    if (!masked[i].defined() || !is_encoded(came[i], codec)) continue;
    const at::Tensor sent =
        codec->sent_of(without_repeats(came[i].detach(), 0));
    if (sent.defined())
      // A clone keeps the strides.
      masked[i] = masked[i].clone().masked_fill_(sent.logical_not(), 0);
  }
  return masked;
}

Tensors as_received(const Tensors& tensors, const Codec* codec) {
  if (codec == nullptr) return tensors;
  Message message;
  pack(tensors, "h", codec, message);
  return unpack(message, "h", codec);
}

}  // namespace sluice
