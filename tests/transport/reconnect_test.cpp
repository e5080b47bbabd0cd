// Links that outlive their connections: nothing is lost, nothing comes twice.
#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/transport/reconnecting_links.h"

namespace sluice::reconnect_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;
using Kind = Fault::Kind;

constexpr Deadline kLong = 60s;

// The first connection breaks so; those after it don't.
FaultProxy::Plan once(const Faults& faults) {
  return
      [faults](int connection) { return connection == 0 ? faults : Faults{}; };
}

// Message i: its number, and bytes that depend on it.
Message numbered(int i, std::size_t bytes) {
  Message message{.batch = i};
  message.tensors.push_back(
      counting_tensor(DType::uint8, {static_cast<std::int64_t>(bytes)}, {1}));
  if (bytes > 0) message.tensors[0].buffer.data[0] = static_cast<std::byte>(i);
  return message;
}

void expect_number(Link& link, int i) {
  const Message received = *link.receiver->receive();
  ASSERT_EQ(received.batch, i);
  const TensorView& tensor = received.tensors.at(0);
  EXPECT_TRUE(same(tensor, numbered(i, tensor.buffer.bytes).tensors[0]));
}

// Both ends send `count` messages, close, and read all of the other's.
void exchange(BreakingLink& link, int count, std::size_t most_bytes) {
  const auto send = [=](Link& from) {
    std::size_t bytes = 0;
    for (int i = 0; i < count; ++i, bytes += 977) {
      from.sender->send(numbered(i, bytes % most_bytes));
    }
    from.sender->close();
  };
  const auto receive = [=](Link& to) {
    for (int i = 0; i < count; ++i) expect_number(to, i);
    EXPECT_FALSE(to.receiver->receive().has_value());
  };
  std::thread up([&] { send(link.lower); });
  std::thread down([&] { send(link.upper); });
  std::thread lower([&] { receive(link.lower); });
  receive(link.upper);
  for (std::thread* thread : {&up, &down, &lower}) thread->join();
}

// Until something goes wrong.
void exchange_one_way(BreakingLink& link) {
  for (int i = 0; i < 1000; ++i) {
    link.lower.sender->send(numbered(i, 100));
    expect_number(link.upper, i);
  }
}

class Reconnection : public testing::TestWithParam<const char*> {
 protected:
  void expect_survived(const Faults& faults, int connections = 2) {
    BreakingLink link(GetParam(), 4, kLong, once(faults));
    exchange(link, 100, 4000);
    EXPECT_EQ(link.proxy->connections(), connections);
  }
};

TEST_P(Reconnection, IsNotNeededWithoutAFault) {
  expect_survived({}, 1);
}

TEST_P(Reconnection, FollowsACutOnTheWayUp) {
  expect_survived({.up = {Kind::cut, 50'000}});
}

TEST_P(Reconnection, FollowsACutOnTheWayDown) {
  expect_survived({.down = {Kind::cut, 50'000}});
}

TEST_P(Reconnection, FollowsAReset) {
  expect_survived({.up = {Kind::reset, 50'000}});
}

TEST_P(Reconnection, FollowsAFlippedBit) {
  expect_survived({.up = {Kind::flip, 50'000}});
}

TEST_P(Reconnection, FollowsSilence) {
  expect_survived({.up = {Kind::stall, 50'000}});
}

TEST_P(Reconnection, IsNotNeededForADelay) {
  expect_survived({.delay = 1ms}, 1);
}

TEST_P(Reconnection, FollowsACutWhileNobodySends) {
  BreakingLink link(GetParam(), 4, kLong, nullptr);
  link.lower.sender->send(numbered(0, 10));
  expect_number(link.upper, 0);
  link.proxy->cut();
  while (link.proxy->connections() < 2) std::this_thread::yield();
  link.lower.sender->send(numbered(1, 10));
  expect_number(link.upper, 1);
}

TEST_P(Reconnection, KeepsCreditsBounded) {
  BreakingLink link(GetParam(), 2, kLong, nullptr);
  link.lower.sender->send(numbered(0, 10));
  link.proxy->cut();
  link.lower.sender->send(numbered(1, 10));
  auto third = std::async(std::launch::async,
                          [&] { link.lower.sender->send(numbered(2, 10)); });
  while (link.proxy->connections() < 2) std::this_thread::yield();
  EXPECT_EQ(third.wait_for(50ms), std::future_status::timeout);
  for (int i = 0; i < 3; ++i) expect_number(link.upper, i);
  third.get();
}

TEST_P(Reconnection, ThatIsOffMakesACutTheEnd) {
  BreakingLink link(GetParam(), 4, 0ms, once({.up = {Kind::cut, 5'000}}));
  EXPECT_THROW(exchange_one_way(link), LinkError);
  EXPECT_EQ(link.proxy->connections(), 1);
}

// Random faults of the first connections, within the handshake too.
FaultProxy::Plan random_faults(unsigned seed) {
  return [seed](int connection) {
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(connection));
    const auto fault = [&](std::uint64_t least) -> Fault {
      constexpr Kind kKinds[] = {Kind::none, Kind::cut, Kind::reset,
                                 Kind::flip};
      const Kind kind = kKinds[random() % 4];
      return {kind, least + random() % 40'000 % (1 + random() % 40'000)};
    };
    if (connection >= 12) return Faults{};
    const std::uint64_t least = connection == 0 ? 1000 : 0;
    return Faults{.up = fault(least), .down = fault(least)};
  };
}

TEST_P(Reconnection, LosesAndRepeatsNothingWhateverBreaks) {
  const unsigned first = std::random_device()();
  for (unsigned seed = first; seed < first + 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    BreakingLink link(GetParam(), 1 + seed % 8, kLong, random_faults(seed));
    exchange(link, 100, 4000);
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Reconnection,
                         testing::Values("unix", "tcp", "tls"),
                         [](const auto& info) { return info.param; });

TEST(LinkThatReconnects, FailsWhenThereIsNobodyAnyMore) {
  BreakingLink link("unix", 1, 100ms, nullptr);
  link.proxy.reset();
  EXPECT_THAT([&] { link.lower.receiver->receive(); },
              ThrowsMessage<LinkError>(
                  AllOf(HasSubstr("block 1 waited for a message from block 2"),
                        HasSubstr("no new connection was made within 100 ms"),
                        HasSubstr("can't connect"))));
  EXPECT_THAT([&] { link.upper.receiver->receive(); },
              ThrowsMessage<LinkError>(HasSubstr("it did not call again")));
}

TEST(LinkThatReconnects, EndsWhenItsPeerIsGoneForGood) {
  BreakingLink link("unix", 1, kLong, nullptr);
  link.upper = {};
  EXPECT_THROW(link.lower.receiver->receive(), LinkError);
  EXPECT_EQ(link.proxy->connections(), 1);
}

TEST(LinkThatReconnects, IsFencedWhenItsPeerWasStartedAnew) {
  BreakingLink link("unix", 1, kLong, once({.down = {Kind::stall, 1000}}));
  IoThread io;
  Meeting anew(io, transport_of("unix"),
               {.identity = {.secret = test_secret(), .from = 1}});
  anew.call(link.target, {.from = 1, .to = 2, .reconnect_ms = 60'000});
  EXPECT_THAT([&] { anew.wait_for(2, std::chrono::steady_clock::now() + 60s); },
              ThrowsMessage<LinkError>(HasSubstr(
                  "block 2 is still in a link with an earlier process")));
  link.proxy->cut();
  EXPECT_THAT([&] { link.upper.receiver->receive(); },
              ThrowsMessage<LinkError>(HasSubstr("was started anew")));
  EXPECT_THAT([&] { link.lower.receiver->receive(); },
              ThrowsMessage<LinkError>(HasSubstr("knows nothing of this")));
}

TEST(LinkThatReconnects, IsFencedByAPeerThatDoesNotKnowIt) {
  // The other end is tried to be reached for as long as the deadline.
  BreakingLink link("unix", 1, kLong, nullptr, 2s);
  // Another process listens where the peer did.
  std::filesystem::remove(link.target);
  IoThread io;
  Meeting anew(io, transport_of("unix"),
               {.identity = {.secret = test_secret(), .from = 2}});
  anew.listen({.folder = link.folder.path(), .name = "b2"});
  link.proxy->cut();
  EXPECT_THAT([&] { link.lower.receiver->receive(); },
              ThrowsMessage<LinkError>(HasSubstr(
                  "block 2 knows nothing of this link: it was started anew")));
}

}  // namespace sluice::reconnect_test
