#include "lib/tensors/pack.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/tensors/dtypes.h"

namespace sluice {
namespace {

/// Whether the dimensions of stride != 0 lie without gaps in some order.
bool is_dense(const at::Tensor& tensor) {
  std::vector<std::int64_t> order;
  for (std::int64_t dimension = 0; dimension < tensor.dim(); ++dimension)
    if (tensor.size(dimension) != 1 && tensor.stride(dimension) != 0)
      order.push_back(dimension);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return tensor.stride(a) < tensor.stride(b);
  });
  std::int64_t expected = 1;
  for (const std::int64_t dimension : order) {
    if (tensor.stride(dimension) != expected) return false;
    expected *= tensor.size(dimension);
  }
  return true;
}

bool is_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) %
             kAlignment ==
         0;
}

at::Tensor as_sendable(const at::Tensor& tensor) {
  at::Tensor plain = tensor.detach();
  if (plain.numel() == 0) return plain.contiguous();
  if (!is_dense(plain)) return plain.contiguous();
  // clone() keeps dense strides, and LibTorch's allocations are aligned; an
  // expanded tensor becomes dense, which only misaligned ones pay.
  return is_aligned(plain) ? plain : plain.clone();
}

Device place_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return {};
  return {.kind = tensor.is_cuda() ? Device::Kind::cuda : Device::Kind::other,
          .index = static_cast<int>(tensor.get_device())};
}

/// The tensor whose storage has the bytes of a view on a GPU.
const at::Tensor& owner_of(const TensorView& view) {
  SLUICE_CHECK(view.buffer.owner != nullptr, "tensor '{}' has no owner",
               view.name);
  return *static_cast<const at::Tensor*>(view.buffer.owner.get());
}

/// A tensor of its own over the bytes: LibTorch's allocator goes on knowing
/// which streams use them, which it wouldn't if they were foreign
/// (from_blob()).
at::Tensor over_device_bytes(const TensorView& view, at::IntArrayRef sizes,
                             at::IntArrayRef strides) {
  const at::Tensor& owner = owner_of(view);
  const auto* const start =
      static_cast<const std::byte*>(owner.storage().data());
  const auto offset = (view.buffer.data - start) /
                      static_cast<std::ptrdiff_t>(size_of(view.dtype));
  at::Tensor tensor =
      at::empty({0}, owner.options().dtype(scalar_type(view.dtype)));
  tensor.set_(owner.storage(), view.buffer.bytes == 0 ? 0 : offset, sizes,
              strides);
  return tensor;
}

}  // namespace

TensorView view_of(const at::Tensor& tensor, std::string_view name) {
  auto owner = std::make_shared<at::Tensor>(as_sendable(tensor));
  TensorView view;
  view.name = name;
  view.dtype = dtype_of(*owner);
  view.sizes = owner->sizes().vec();
  view.strides = owner->strides().vec();
  view.buffer.bytes = stored_bytes(view.dtype, view.sizes, view.strides);
  view.buffer.data = static_cast<std::byte*>(owner->data_ptr());
  view.buffer.device = place_of(*owner);
  view.buffer.owner = std::move(owner);
  return view;
}

at::Tensor tensor_of(const TensorView& view) {
  if (view.buffer.wait_ready) view.buffer.wait_ready();
  if (view.buffer.device.kind != Device::Kind::cpu)
    return over_device_bytes(view, view.sizes, view.strides);
  const Buffer keep = view.buffer;
  return at::from_blob(
      view.buffer.data, view.sizes, view.strides, [keep](void*) {},
      at::TensorOptions().dtype(scalar_type(view.dtype)));
}

at::Tensor stored_elements(const TensorView& view) {
  const auto count =
      static_cast<std::int64_t>(view.buffer.bytes / size_of(view.dtype));
  return over_device_bytes(view, {count}, {1});
}

void pack(const Tensors& tensors, std::string_view name, Message& message) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    message.tensors.push_back(
        view_of(tensors[i], fmt::format("{}.{}", name, i)));
}

Tensors unpack(const Message& message, std::string_view name) {
  Tensors tensors;
  for (const TensorView& view : message.tensors)
    if (view.name == fmt::format("{}.{}", name, tensors.size()))
      tensors.push_back(tensor_of(view));
  return tensors;
}

WriteCheck::WriteCheck(std::initializer_list<const Tensors*> tensors) {
  for (const Tensors* list : tensors)
    tensors_.insert(tensors_.end(), list->begin(), list->end());
  for (const at::Tensor& tensor : tensors_)
    versions_.push_back(static_cast<std::uint32_t>(tensor._version()));
}

void WriteCheck::check(std::string_view culprit) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i]._version() != versions_[i])
      throw UserError(
          "{} wrote its input in place; it may be what a neighbour sent, so "
          "use the version that is not in place",
          culprit);
}

}  // namespace sluice
