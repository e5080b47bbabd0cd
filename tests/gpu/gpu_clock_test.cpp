#include "lib/metrics/gpu_clock.h"

#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/tensors/device.h"

namespace sluice::gpu_clock_test {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

TEST(GpuClock, CountsTheWorkOfTheGpuAndNotTheWaitsOfTheHost) {
  if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
  const at::Tensor ones = at::ones({4096, 4096}, at::TensorOptions(kGpu));
  const auto work = [&] {
    for (int i = 0; i < 20; ++i) at::mm(ones, ones);
  };
  work();  // cuBLAS starts
  GpuClock clock(kGpu);
  SpentTime spent;
  clock.resume(Op::forward);
  work();
  EXPECT_TRUE(clock.pause());
  EXPECT_FALSE(clock.pause());
  clock.collect(spent, /*all=*/true);
  const double once = spent.of(Op::forward);
  EXPECT_GT(once, 1e-4);

  clock.resume(Op::backward);
  clock.pause();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  clock.resume();
  work();
  clock.pause();
  clock.collect(spent, /*all=*/true);
  EXPECT_LT(spent.of(Op::backward), 5 * once + 0.1);
  EXPECT_EQ(spent.of(Op::forward), once);
}

}  // namespace sluice::gpu_clock_test
