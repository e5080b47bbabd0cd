#include "lib/tensors/gpu/registered_memory.h"

#include "lib/base/error.h"
#include "lib/kernels/cuda_host_memory.h"

namespace sluice {

bool can_register_memory(const c10::Device& device) {
  return device.is_cuda() && cuda_host_memory() != nullptr;
}

std::shared_ptr<void> registered_memory(const c10::Device& device,
                                        std::span<std::byte> memory,
                                        std::string& why) {
  const CudaHostMemory* const cuda = cuda_host_memory();
  SLUICE_CHECK(cuda != nullptr, "this program was built without nvcc");
  const char* const reason =
      cuda->pin(device.index(), memory.data(), memory.size());
  if (reason != nullptr) {
    why = fmt::format("CUDA pins no shared memory: {}", reason);
    return nullptr;
  }
  return {memory.data(), [cuda, index = device.index()](std::byte* start) {
            cuda->unpin(index, start);
          }};
}

}  // namespace sluice
