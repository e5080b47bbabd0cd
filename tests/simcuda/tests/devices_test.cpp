// Which GPU a block gets, of two.
#include <gmock/gmock.h>

#include "lib/base/error.h"
#include "lib/tensors/device.h"

namespace sluice::simcuda::devices_test {

TEST(DeviceFor, DealsBlocksOut) {
  EXPECT_EQ(device_for("cuda", 1).str(), "cuda:0");
  EXPECT_EQ(device_for("cuda", 2).str(), "cuda:1");
  EXPECT_EQ(device_for("cuda", 3).str(), "cuda:0");
}

/// With `srun --distribution=cyclic` ranks 0, 2, 4 ... are of one host.
TEST(DeviceFor, DealsRanksOutByTheirNumberOnTheHost) {
  EXPECT_EQ(device_for("cuda", 1, 0).str(), "cuda:0");
  EXPECT_EQ(device_for("cuda", 3, 1).str(), "cuda:1");
  EXPECT_EQ(device_for("cuda", 5, 2).str(), "cuda:0");
}

TEST(DeviceFor, TakesANumberAsItIs) {
  EXPECT_EQ(device_for("cuda:1", 1, 0).str(), "cuda:1");
}

/// Another kind of GPU is a name like CUDA's, which LibTorch knows or doesn't.
TEST(DeviceFor, TakesOtherKindsOfGpusWhereLibTorchHasThem) {
  EXPECT_NO_THROW(check_device_name("xpu"));
  EXPECT_NO_THROW(check_device_name("xpu:1"));
  EXPECT_THROW(check_device_name("xpu:x"), UserError);
  EXPECT_THROW(check_device_name("xpux"), UserError);
  EXPECT_THROW(check_device_name("tpu"), UserError);
  EXPECT_THAT([] { device_for("xpu:1", 2); },
              testing::ThrowsMessage<UserError>(
                  testing::HasSubstr("linked to a LibTorch without XPU")));
  EXPECT_EQ(count_gpus(c10::DeviceType::XPU), 0);
  EXPECT_EQ(count_gpus(), 2);
}

}  // namespace sluice::simcuda::devices_test
