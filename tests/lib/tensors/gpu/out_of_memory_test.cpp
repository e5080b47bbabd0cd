#include "lib/tensors/gpu/out_of_memory.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::out_of_memory_test {

using testing::StartsWith;

bool is_told_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    return is_out_of_gpu_memory(error);
  }
  return false;
}

TEST(OutOfGpuMemory, IsToldByItsTypeOrByTheTextOfCuda) {
  EXPECT_TRUE(is_told_by([] {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Tried to allocate 2 GiB");
  }));
  EXPECT_TRUE(
      is_told_by([] { TORCH_CHECK(false, "CUDA error: out of memory"); }));
  EXPECT_FALSE(is_told_by([] {
    TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory");
  }));
}

TEST(OutOfGpuMemory, IsSaidWithBlockDeviceAndRemedies) {
  const c10::Device device(c10::DeviceType::CUDA, 1);
  const c10::Error error({__func__, __FILE__, 1}, "Tried to allocate 2 GiB");
  EXPECT_THAT(out_of_gpu_memory("block 2", device, error).what(),
              StartsWith("block 2: device 'cuda:1' has no memory left: make "
                         "batch_size smaller"));
}

}  // namespace sluice::out_of_memory_test
