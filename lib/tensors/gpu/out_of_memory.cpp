#include "lib/tensors/gpu/out_of_memory.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sluice {
namespace {

/// Texts in errors of LibTorch that are of no type of their own: CUDA itself,
/// or one of its libraries, asked for memory beside LibTorch's allocator.
constexpr std::array<std::string_view, 3> kTexts = {
    "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED"};

}  // namespace

bool is_out_of_gpu_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return true;
  const std::string_view text = error.what_without_backtrace();
  return std::any_of(kTexts.begin(), kTexts.end(), [&](std::string_view known) {
    return text.find(known) != text.npos;
  });
}

UserError out_of_gpu_memory(const std::string& who, const c10::Device& device,
                            const c10::Error& error) {
  return UserError(
      "{}: device '{}' has no memory left: make batch_size smaller, set "
      "checkpoint_layers = 1, cut each batch (pipeline.micro_batches), cut the "
      "model into more blocks, or give the block a GPU of its own (device). "
      "LibTorch says: {}",
      who, device.str(), error.what_without_backtrace());
}

}  // namespace sluice
