// Which GPU a block gets, of two.
#include <gtest/gtest.h>

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

}  // namespace sluice::simcuda::devices_test
