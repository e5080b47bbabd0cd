// CUDA that starts on a device that no code has asked for is reported.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/gpu/staging.h"
#include "tests/simcuda/machine.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::contexts_test {

using testing::ElementsAre;
using testing::HasSubstr;

const c10::Device kSecond(c10::DeviceType::CUDA, 1);

/// As a process begins.
class StartOfCuda : public SimulatedGpu {
 protected:
  void SetUp() override {
    SimulatedGpu::SetUp();
    forget_contexts();
  }
};

c10::Event event_of_second() {
  const at::Tensor sum = at::zeros({10}, kSecond) + 1;
  c10::Event done(kSecond.type());
  done.record(sluice::computing_on(kSecond));
  return done;
}

TEST_F(StartOfCuda, ByAWaitForAnEventOfAnotherDeviceIsReported) {
  event_of_second().synchronize();
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("a wait for an event starts CUDA on device "
                                    "0")));
}

TEST_F(StartOfCuda, ByTheQueryOfAnEventIsReported) {
  event_of_second().query();
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("the query of an event starts CUDA")));
}

TEST_F(StartOfCuda, ByPinnedMemoryBeforeAThreadHasItsDeviceIsReported) {
  on_device(pinned(3), kSecond);
  EXPECT_THAT(
      take_reports(),
      ElementsAre(HasSubstr("an allocation of pinned memory starts CUDA")));
}

TEST_F(StartOfCuda, EventsAreOfOneDevice) {
  c10::Event done = event_of_second();
  EXPECT_THROW(done.record(sluice::computing_on(kGpu)), c10::Error);
  EXPECT_NO_THROW(done.record(sluice::computing_on(kSecond)));
}

TEST_F(StartOfCuda, OnTheDeviceOfTheThreadIsRight) {
  const CurrentDevice on(kSecond);
  EXPECT_EQ(on_device(pinned(3), kSecond).device(), kSecond);
  event_of_second().synchronize();
}

TEST_F(StartOfCuda, ByPinnedMemoryWhereThereIsADeviceAlreadyIsRight) {
  const at::Tensor sum = at::zeros({10}, kSecond) + 1;
  EXPECT_EQ(on_device(pinned(3), kSecond).device(), kSecond);
}

/// A block on the CPU may read what another one's GPU has sent.
TEST_F(StartOfCuda, ByTheWaitOfAThreadWithoutADeviceForACopyIsRight) {
  const HostCopy copy = copy_to_host(at::zeros({10}, kSecond) + 1);
  copy.wait();
  EXPECT_TRUE(copy.tensor.eq(1).all().item<bool>());
}

TEST(CurrentDevice, CurrentDeviceOfTheCpuIsNone) {
  const CurrentDevice on(c10::DeviceType::CPU);
  EXPECT_EQ(current_device(), 0);
}

TEST(CurrentDevice, IsTheThreadsForItsLife) {
  {
    const CurrentDevice on(kSecond);
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
}

}  // namespace sluice::simcuda::contexts_test
