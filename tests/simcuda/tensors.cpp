#include "tests/simcuda/tensors.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

namespace sluice::simcuda {

at::Tensor as_cpu(const at::Tensor& tensor) {
  const auto options = at::TensorOptions(tensor.dtype()).device(at::kCPU);
  const void* const start = tensor.storage().data();
  if (start == nullptr || tensor.storage().nbytes() == 0)
    return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const Allocation* const memory = find_allocation(start);
  TORCH_CHECK(memory != nullptr,
              "simulated GPU: a tensor in memory that was released");
  std::byte* const data =
      operands_at(*memory, start) +
      tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize());
  return at::from_blob(
      data, tensor.sizes(), tensor.strides(), [](void*) {}, options);
}

at::Tensor unowned(const at::Tensor& tensor) {
  if (!tensor.defined() || memory_of(tensor) == nullptr) return tensor;
  const at::Storage& storage = tensor.storage();
  at::Tensor same = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(
          c10::Storage::use_byte_size_t(), storage.nbytes(),
          c10::DataPtr(const_cast<void*>(storage.data()), storage.device())),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), tensor.dtype());
  same.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return same;
}

Allocation* memory_of(const at::Tensor& tensor) {
  return find_allocation(tensor.storage().data());
}

void read(const at::Tensor& tensor, const Use& use) {
  if (Allocation* const memory = memory_of(tensor)) read(*memory, use);
}

void write(const at::Tensor& tensor, const Use& use) {
  if (Allocation* const memory = memory_of(tensor)) write(*memory, use);
}

}  // namespace sluice::simcuda
