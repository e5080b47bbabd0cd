// Planted mistakes in the order of streams: each is found, and what is right
// isn't reported.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>

#include "lib/tensors/gpu/staging.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::order_test {

using testing::ElementsAre;
using testing::HasSubstr;

class Order : public SimulatedGpu {};

/// A copy to the host as staging.cpp makes it, but for what is left out.
struct CopySteps {
  bool order = true;
  bool record_stream = true;
  bool wait = true;
};
at::Tensor copied_out(const CopySteps& kept) {
  at::Tensor sum = at::zeros({1000}, kGpu) + 1;
  if (kept.order) order(sluice::computing_on(kGpu), leaving());
  at::Tensor host = pinned(0);
  {
    const c10::StreamGuard on(leaving());
    host.copy_(sum, /*non_blocking=*/true);
  }
  if (kept.record_stream) sum.record_stream(leaving());
  sum = at::Tensor();
  c10::Event done(kGpu.type());
  done.record(leaving());
  if (kept.wait) done.synchronize();
  return host;
}

TEST_F(Order, ACopyOutAsItShouldBeIsRight) {
  EXPECT_TRUE(copied_out({}).equal(at::ones({1000})));
}

TEST_F(Order, ACopyOutThatIsNotBehindTheComputationIsReported) {
  copied_out({.order = false});
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("a copy to the host in stream")));
}

TEST_F(Order, MemoryReleasedUnderACopyOutIsReported) {
  copied_out({.record_stream = false});
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("record_stream() is missing")));
}

TEST_F(Order, WhatTheHostDoesNotWaitForIsNotThere) {
  EXPECT_FALSE(copied_out({.wait = false}).eq(1).any().item<bool>());
}

TEST_F(Order, StagingIsThereAfterItsWaitAndNotBefore) {
  HostCopy copy = copy_to_host(at::zeros({1000}, kGpu) + 7);
  EXPECT_FALSE(copy.tensor.eq(7).any().item<bool>());
  copy.wait();
  EXPECT_TRUE(copy.tensor.eq(7).all().item<bool>());
}

TEST_F(Order, ACopyInThatNobodyWaitsForIsReported) {
  at::Tensor there;
  const at::Tensor host = pinned(3);
  {
    const c10::StreamGuard on(arriving());
    there = host.to(kGpu, /*non_blocking=*/true);
  }
  const at::Tensor more = there + 1;
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("what a copy to the device in stream")));
  there.record_stream(sluice::computing_on(kGpu));
}

TEST_F(Order, StagingInIsRight) {
  const at::Tensor there = on_device(pinned(3), kGpu);
  EXPECT_TRUE((there + 1).cpu().eq(4).all().item<bool>());
}

/// The host may write what it has seen to be copied, not earlier.
TEST_F(Order, ACopyInReadsTheHostsMemoryUntilTheHostHasWaited) {
  for (const bool waits : {true, false}) {
    at::Tensor host = pinned(3);
    const at::Tensor there = host.to(kGpu, /*non_blocking=*/true);
    c10::Event done(kGpu.type());
    done.record(sluice::computing_on(kGpu));
    if (waits) done.synchronize();
    host.fill_(5);
    EXPECT_EQ(there.cpu().max().item<float>(), waits ? 3 : 5);
  }
}

TEST_F(Order, AnEventIsNotDoneBeforeTheHostHasWaited) {
  const at::Tensor sum = at::zeros({10}, kGpu) + 1;
  c10::Event done(kGpu.type());
  done.record(sluice::computing_on(kGpu));
  EXPECT_FALSE(done.query());
  done.synchronize();
  EXPECT_TRUE(done.query());
}

/// As by who polls it: what it tells is an order, too.
TEST_F(Order, AnEventThatIsAskedOftenIsDoneAtLast) {
  const at::Tensor sum = at::zeros({10}, kGpu) + 1;
  c10::Event done(kGpu.type());
  done.record(sluice::computing_on(kGpu));
  const std::int64_t waits = waits_of_this_thread();
  int no = 0;
  while (!done.query()) ++no;
  EXPECT_GT(no, 0);
  done.synchronize();
  EXPECT_EQ(waits_of_this_thread(), waits);
}

TEST_F(Order, FromDeviceToDeviceInOneProcessIsRight) {
  const at::Tensor first = on_device(pinned(3), kGpu) * 2;
  const at::Tensor second = on_device(first, c10::Device(at::kCUDA, 1));
  EXPECT_EQ((second + 1).cpu().min().item<float>(), 7);
}

TEST_F(Order, AReportThatNobodyKeepsEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        collect_reports(false);
        copied_out({.order = false});
      },
      testing::ExitedWithCode(kReported), "nothing orders them");
}

}  // namespace sluice::simcuda::order_test
