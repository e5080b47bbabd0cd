// Events on the simulated GPU: they are used again, a clock takes a sample, and
// who sends asks them, without a wait.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/messages/departing_sender.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/metrics/gpu_clock.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::events_test {

class Events : public SimulatedGpu {};

TEST_F(Events, EventsOfCopiesAreUsedAgain) {
  const at::Tensor there = at::zeros({100}, kGpu) + 1;
  const auto copy = [&] { copy_to_host(there).wait(); };
  copy();
  const std::int64_t made = counts().events_made;
  const std::int64_t recorded = counts().events_recorded;
  for (int i = 0; i < 10; ++i) copy();
  EXPECT_EQ(counts().events_made, made);
  EXPECT_GE(counts().events_recorded, recorded + 10);
}

/// In whole floats.
constexpr std::int64_t kSmall = kSmallCopy / sizeof(float);

/// What moves them, and how many events that takes.
std::int64_t events_of(const std::function<void()>& work) {
  const std::int64_t before = counts().events_recorded;
  work();
  return counts().events_recorded - before;
}

/// Labels are, among others.
TEST_F(Events, EventsOfSmallCopiesToTheGpuAreNone) {
  for (const std::int64_t more : {0, 1}) {
    at::Tensor there;
    EXPECT_EQ(
        events_of([&] { there = on_device(pinned(3, kSmall + more), kGpu); }),
        more);
    EXPECT_TRUE((there + 1).cpu().eq(4).all().item<bool>());
  }
}

/// The copy would make the host wait for what is computed.
TEST_F(Events, EventsOfSmallCopiesFromOtherMemoryAreThoseOfLargeOnes) {
  at::Tensor there;
  EXPECT_EQ(events_of([&] { there = on_device(at::full({10}, 3.0), kGpu); }),
            1);
  EXPECT_TRUE((there + 1).cpu().eq(4).all().item<bool>());
}

TEST_F(Events, EventsOfSmallCopiesToTheHostAreOne) {
  for (const std::int64_t more : {0, 1}) {
    const at::Tensor sum = pinned(3, kSmall + more).to(kGpu) + 1;
    HostCopy copy;
    EXPECT_EQ(events_of([&] { copy = copy_to_host(sum); }), 1 + more);
    EXPECT_FALSE(copy.tensor.eq(4).any().item<bool>());
    copy.wait();
    EXPECT_TRUE(copy.tensor.eq(4).all().item<bool>());
  }
}

/// Counts of what moves tensors leave the clock's events out.
TEST_F(Events, EventsOfAClockAreCountedApart) {
  const Counts before = counts();
  GpuClock clock(kGpu);
  clock.resume(Op::forward);
  clock.pause();
  copy_to_host(at::zeros({100}, kGpu)).wait();
  EXPECT_EQ(counts().events_of_clocks, before.events_of_clocks + 2);
  EXPECT_EQ(counts().events_recorded, before.events_recorded + 3);
}

/// Else who waits for the first would wait for the second, or for nothing.
TEST_F(Events, EventsOfTwoCopiesUnderWayAreTwo) {
  const at::Tensor there = at::zeros({100}, kGpu) + 1;
  const HostCopy first = copy_to_host(there);
  const HostCopy second = copy_to_host(there + 1);
  first.wait();
  second.wait();
  EXPECT_EQ(first.tensor.max().item<float>(), 1);
  EXPECT_EQ(second.tensor.max().item<float>(), 2);
}

TEST_F(Events, EventsOfAClockAreASampleThatStandsForAll) {
  GpuClock clock(kGpu);
  SpentTime spent;
  const auto act = [&](std::int64_t times) {
    const std::int64_t before = counts().events_recorded;
    for (std::int64_t i = 0; i < times; ++i) {
      clock.resume(Op::forward);
      clock.pause();
    }
    clock.collect(spent, /*all=*/true);
    return counts().events_recorded - before;
  };
  EXPECT_EQ(act(1), 2);
  const double once = spent.of(Op::forward);
  EXPECT_GT(once, 0);
  EXPECT_EQ(act(GpuClock::kTimed - 1), 2 * (GpuClock::kTimed - 1));
  EXPECT_EQ(act(GpuClock::kTimed), 2);
  EXPECT_NEAR(spent.of(Op::forward),
              static_cast<double>(2 * GpuClock::kTimed) * once, 1e-9 * once);
}

TEST_F(Events, EventsOfAClockAreUsedAgain) {
  GpuClock clock(kGpu);
  SpentTime spent;
  const std::int64_t made = counts().events_made;
  for (int i = 0; i < GpuClock::kTimed; ++i) {
    clock.resume(Op::update);
    clock.pause();
    clock.collect(spent, /*all=*/true);
  }
  EXPECT_LE(counts().events_made, made + 2);
}

TEST_F(Events, AreAskedByWhoSends) {
  auto [in, receiver] = memory_channel(4, std::chrono::seconds(60));
  const auto sender =
      staged_sender(departing_sender(std::move(in), std::chrono::seconds(60)));
  const std::int64_t waits = counts().waits_for_events;
  const std::int64_t queries = counts().event_queries;
  for (int i = 0; i < 3; ++i) {
    Message message{.batch = i};
    pack({at::zeros({100}, kGpu) + i}, "h", message);
    sender->send(std::move(message));
    const std::optional<Message> came = receiver->receive();
    ASSERT_TRUE(came.has_value());
    EXPECT_EQ(unpack(*came, "h").at(0).max().item<float>(), i);
  }
  EXPECT_EQ(counts().waits_for_events, waits);
  EXPECT_GT(counts().event_queries, queries);
  sender->close();
}

}  // namespace sluice::simcuda::events_test
