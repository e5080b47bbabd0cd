#include "lib/base/messages/lossy_sender.h"

#include <chrono>
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"

namespace sluice::lossy_sender_test {

using namespace std::chrono_literals;
using Batches = std::vector<std::int64_t>;

constexpr Deadline kPatient = 60s;

struct Lossy {
  explicit Lossy(SlowConsumer policy) {
    auto [sender, upper] = memory_channel(1, kPatient);
    lower = std::make_unique<LossySender>(std::move(sender), policy);
    receiver = std::move(upper);
  }
  void send(std::int64_t batch) { lower->send({.batch = batch}); }
  /// What the receiver finds when the sender looks after each message.
  Batches received() {
    Batches batches;
    for (; receiver->ready(); lower->flush())
      batches.push_back(receiver->receive()->batch);
    return batches;
  }

  std::unique_ptr<LossySender> lower;
  std::unique_ptr<Receiver> receiver;
};

TEST(LossySender, DropsNothingThatIsTakenInTime) {
  Lossy link(SlowConsumer::latest);
  for (std::int64_t batch = 0; batch < 5; ++batch) {
    link.send(batch);
    EXPECT_EQ(link.received(), Batches{batch});
  }
  EXPECT_EQ(link.lower->take_dropped(), Batches{});
}

TEST(LossySender, LatestKeepsTheNewestThatHasNotReachedTheChannel) {
  Lossy link(SlowConsumer::latest);
  for (std::int64_t batch = 0; batch < 5; ++batch) link.send(batch);
  EXPECT_EQ(link.lower->take_dropped(), (Batches{1, 2, 3}));
  EXPECT_EQ(link.received(), (Batches{0, 4}));
}

TEST(LossySender, DropOldestKeepsFourThatHaveNotReachedTheChannel) {
  Lossy link(SlowConsumer::drop_oldest);
  for (std::int64_t batch = 0; batch < 8; ++batch) link.send(batch);
  EXPECT_EQ(link.lower->take_dropped(), (Batches{1, 2, 3}));
  EXPECT_EQ(link.received(), (Batches{0, 4, 5, 6, 7}));
}

TEST(LossySender, TellsOfADropOnce) {
  Lossy link(SlowConsumer::latest);
  for (std::int64_t batch = 0; batch < 3; ++batch) link.send(batch);
  EXPECT_EQ(link.lower->take_dropped(), Batches{1});
  EXPECT_EQ(link.lower->take_dropped(), Batches{});
}

TEST(LossySender, NeverBlocksForAnActivation) {
  Lossy link(SlowConsumer::latest);
  link.send(0);
  EXPECT_TRUE(link.lower->ready());
}

TEST(LossySender, BlocksForAnythingElseAndDropsNothingBeforeIt) {
  Lossy link(SlowConsumer::latest);
  link.send(0);
  link.send(1);
  auto sent = std::async(std::launch::async, [&] {
    link.lower->send({.kind = MessageKind::evaluation, .batch = 7});
  });
  EXPECT_EQ(sent.wait_for(20ms), std::future_status::timeout);
  for (const std::int64_t batch : {0, 1, 7})
    EXPECT_EQ(link.receiver->receive()->batch, batch);
  sent.get();
}

TEST(LossySender, SendsWhatWaitsBeforeItCloses) {
  Lossy link(SlowConsumer::latest);
  link.send(0);
  link.send(1);
  auto closed = std::async(std::launch::async, [&] { link.lower->close(); });
  EXPECT_EQ(link.receiver->receive()->batch, 0);
  EXPECT_EQ(link.receiver->receive()->batch, 1);
  EXPECT_FALSE(link.receiver->receive().has_value());
  closed.get();
}

TEST(LossySender, SaysThatThePeerIsGone) {
  Lossy link(SlowConsumer::latest);
  link.send(0);
  link.receiver.reset();
  EXPECT_THROW(link.send(1), LinkError);
}

}  // namespace sluice::lossy_sender_test
