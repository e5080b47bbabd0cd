// What lib/tensors/gpu/cuda_ipc.cpp does after an error that sticks to a
// device.
#include "lib/tensors/gpu/cuda_ipc.h"

#include <gtest/gtest.h>

#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::cuda_ipc_test {

constexpr int kDevice = 1;

int calls = 0;

/// As many of CUDA's functions as it takes to close.
constexpr CudaIpc kFunctions = {
    .id_of = [](int) { return DeviceId(); },
    .close_memory = [](int, std::byte*) { ++calls; },
    .close_event = [](int, CudaIpc::Event) { ++calls; },
    .finish = [](int, CudaIpc::Stream) { ++calls; }};

struct BrokenDevice {
  BrokenDevice() { break_device(kDevice); }
  ~BrokenDevice() { break_device(kDevice, false); }
  BrokenDevice(const BrokenDevice&) = delete;
  BrokenDevice& operator=(const BrokenDevice&) = delete;
};

class CudaIpcOfABrokenDevice : public SimulatedGpu {};

/// An exception would end the program, which has an error to tell.
TEST_F(CudaIpcOfABrokenDevice, ClosesWhatItHasOpened) {
  const auto device =
      cuda_ipc_device({c10::DeviceType::CUDA, kDevice}, &kFunctions);
  const BrokenDevice broken;
  calls = 0;
  device->finish({});
  device->close_memory(nullptr);
  device->close_event({});
  EXPECT_EQ(calls, 3);
}

TEST_F(CudaIpcOfABrokenDevice, RefusesWhatElseItIsAskedFor) {
  const auto device =
      cuda_ipc_device({c10::DeviceType::CUDA, kDevice}, &kFunctions);
  const BrokenDevice broken;
  EXPECT_THROW(device->allocate(1), c10::Error);
}

}  // namespace sluice::simcuda::cuda_ipc_test
