// The operations that are registered for the dispatch key CUDA: what makes
// memory, views and copies; the fallback does the rest.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "tests/simcuda/copies.h"
#include "tests/simcuda/fallback.h"
#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

/// From then on LibTorch asks which memory is pinned, as after the first tensor
/// on a GPU.
void begin_cuda() {
  at::globalContext().lazyInitDevice(kCuda);
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                 std::optional<c10::Layout> /*layout*/,
                 std::optional<c10::Device> device,
                 std::optional<bool> /*pinned*/,
                 std::optional<c10::MemoryFormat> format) {
  begin_cuda();
  const c10::DeviceGuard on(c10::device_or_default(device));
  return at::detail::empty_generic(sizes, &device_allocator(), kKeys,
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout> /*layout*/,
                         std::optional<c10::Device> device,
                         std::optional<bool> /*pinned*/) {
  begin_cuda();
  const c10::DeviceGuard on(c10::device_or_default(device));
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(),
                                           kKeys, c10::dtype_or_default(type));
}

/// More memory for the tensor, with what was there.
void grow(const at::Tensor& tensor, std::size_t bytes) {
  const c10::DeviceGuard on(tensor.device());
  c10::DataPtr data = device_allocator().allocate(bytes);
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (storage.nbytes() > 0)
    device_allocator().copy_data(data.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<c10::MemoryFormat> /*format*/) {
  const std::size_t bytes = at::detail::computeStorageNbytesContiguous(
      sizes, self.itemsize(), static_cast<std::size_t>(self.storage_offset()));
  if (bytes > self.storage().nbytes()) grow(self, bytes);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source,
                        std::int64_t offset, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return self;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", resize);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("record_stream", record_stream);
  library.impl("copy_", copy_);
  library.impl("_local_scalar_dense", local_scalar);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
}

/// Operations of many tensors, of which CUDA's do each in one launch, or few.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  for (const char* name :
       {"_foreach_add.List", "_foreach_add_.Scalar", "_foreach_addcdiv_.Scalar",
        "_foreach_addcdiv_.ScalarList", "_foreach_addcmul.Scalar",
        "_foreach_addcmul_.Scalar", "_foreach_copy_", "_foreach_div.Scalar",
        "_foreach_div.ScalarList", "_foreach_lerp.Scalar",
        "_foreach_lerp_.Scalar", "_foreach_mul.Tensor", "_foreach_mul_.Scalar",
        "_foreach_norm.Scalar", "_foreach_sign_", "_foreach_sqrt",
        "_foreach_sqrt_", "_foreach_sub_.List"})
    library.impl(name,
                 torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

}  // namespace
}  // namespace sluice::simcuda
