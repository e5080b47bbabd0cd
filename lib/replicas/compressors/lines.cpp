#include "lib/replicas/compressors/lines.h"

#include <cstring>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/tensors/parts.h"

namespace sluice {
namespace {

at::TensorOptions float_on_cpu() {
  return at::TensorOptions(at::kFloat).device(at::kCPU);
}

}  // namespace

GradientLines::GradientLines(const Tensors& gradients) {
  for (const at::Tensor& gradient : gradients)
    lines_.push_back(gradient.defined()
                         ? line_of(gradient.detach().to(float_on_cpu()))
                         : at::Tensor());
}

std::span<const float> GradientLines::of(std::size_t index) const {
  return line_elements(lines_.at(index));
}

std::size_t GradientLines::elements() const {
  std::size_t all = 0;
  for (std::size_t i = 0; i < size(); ++i) all += of(i).size();
  return all;
}

SumLines::SumLines(const Tensors& like) : like_(like) {
  for (const at::Tensor& gradient : like_)
    sums_.push_back(gradient.defined()
                        ? at::zeros_like(gradient.detach(), float_on_cpu())
                        : at::Tensor());
}

std::span<float> SumLines::of(std::size_t index) {
  return line_elements(sums_.at(index));
}

Tensors SumLines::tensors() const {
  Tensors all;
  for (std::size_t i = 0; i < sums_.size(); ++i)
    all.push_back(sums_[i].defined() ? sums_[i].to(like_[i].options())
                                     : at::Tensor());
  return all;
}

std::span<float> line_elements(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

NamedTensors zeros_for(const NamedTensors& parameters, std::string_view what) {
  NamedTensors all;
  for (const auto& [name, tensor] : parameters)
    all.emplace_back(fmt::format("compress.{}.{}", what, name),
                     at::zeros_like(tensor.detach(), float_on_cpu()));
  return all;
}

std::size_t output_row(const at::Tensor& tensor) {
  const auto elements = static_cast<std::size_t>(tensor.numel());
  const bool has_rows = tensor.dim() > 1 && elements > 0 &&
                        tensor.stride(0) * tensor.size(0) == tensor.numel();
  return has_rows ? elements / static_cast<std::size_t>(tensor.size(0))
                  : elements;
}

at::Tensor tensor_of_bytes(const EncodedBytes& bytes) {
  const at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty())
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::span<const std::byte> bytes_of_replica(at::Tensor& sent, int member) {
  if (!sent.defined() || sent.scalar_type() != at::kByte || sent.dim() != 1)
    throw LinkError("replica {} has sent something else than bytes", member);
  sent = sent.contiguous();
  return {static_cast<const std::byte*>(sent.const_data_ptr()),
          static_cast<std::size_t>(sent.numel())};
}

}  // namespace sluice
