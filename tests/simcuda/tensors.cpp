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
      bytes_at(*memory, start) +
      tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize());
  return at::from_blob(
      data, tensor.sizes(), tensor.strides(), [](void*) {}, options);
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
