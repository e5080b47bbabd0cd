// What a peer can do wrong on a socket. The contract of the link itself is in
// channel_contract_test.cpp.
#include "transport/links/connection.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "tests/transport/links_under_test.h"
#include "transport/links/hello.h"
#include "transport/wire/frame.h"

namespace sluice::connection_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StrEq;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr Deadline kPatient = 60s;
// Many times as long as a step of a slow peer, which a busy machine makes
// slower; the steps together are longer.
constexpr Deadline kWait = 1200ms;

// A link whose other end is a bare socket that the test writes to.
class Wire : public testing::Test {
 protected:
  void open(LinkOptions options = test_options(1, kPatient)) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    peer_ = ends[1];
    link_ = open_link(
        io_,
        Stream(Socket(io_.context(),
                      boost::asio::generic::stream_protocol(AF_UNIX, 0),
                      ends[0])),
        std::move(options));
  }
  void TearDown() override { hang_up(); }

  void write(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void write_message(std::uint64_t sequence) {
    write(encode_message({.batch = 7}, sequence, FrameLimits{}));
  }
  FrameHeader next_of(FrameType type) {
    for (;;) {
      std::array<std::byte, kHeaderBytes> bytes = {};
      EXPECT_EQ(::recv(peer_, bytes.data(), bytes.size(), MSG_WAITALL),
                static_cast<ssize_t>(bytes.size()));
      const FrameHeader header = decode_header(bytes, FrameLimits{});
      if (header.type == type) return header;
    }
  }
  FrameHeader next_beat() { return next_of(FrameType::beat); }
  void wait_until_closed() {
    std::byte byte{};
    while (::recv(peer_, &byte, 1, 0) > 0) {
    }
  }
  void hang_up() {
    if (peer_ >= 0) ::close(peer_);
    peer_ = -1;
  }
  void expect_refused(const std::string& why) {
    EXPECT_THAT([&] { link_.receiver->receive(); },
                ThrowsMessage<LinkError>(HasSubstr(why)));
  }

  IoThread io_;
  int peer_ = -1;
  Link link_;
};

TEST_F(Wire, CarriesWhatTheFrameFormatSays) {
  open();
  write_message(1);
  EXPECT_EQ(link_.receiver->receive()->batch, 7);
}

TEST_F(Wire, SaysWhoWaitedForWhomWhenThePeerDies) {
  open();
  hang_up();
  EXPECT_THAT([&] { link_.receiver->receive(); },
              ThrowsMessage<LinkError>(
                  AllOf(HasSubstr("block 1 waited for a message from block 2"),
                        HasSubstr("it is gone"))));
  EXPECT_THAT([&] { link_.sender->send({}); },
              ThrowsMessage<LinkError>(
                  HasSubstr("block 1 waited for block 2 to take a message")));
}

// The ends of a process that unwinds say a last word, those of a killed one
// don't, and a socket with unread bytes is reset: which comes is chance.
TEST_F(Wire, SaysOneThingOfAPeerThatIsGoneWhateverShowsThat) {
  const auto nothing = [] {};
  const auto say = [this](FrameType last) {
    return [this, last] { write(encode_frame(last)); };
  };
  const auto leave_unread = [this] { link_.sender->send({}); };
  for (const std::function<void()>& sign : std::vector<std::function<void()>>{
           nothing, say(FrameType::quit), leave_unread}) {
    open();
    sign();
    hang_up();
    EXPECT_THAT([&] { link_.receiver->receive(); },
                ThrowsMessage<PeerGoneError>(
                    StrEq("block 1 waited for a message from block 2: it is "
                          "gone")));
  }
  for (const std::function<void()>& sign :
       std::vector<std::function<void()>>{nothing, say(FrameType::stop)}) {
    open();
    sign();
    hang_up();
    EXPECT_THAT(
        [&] {
          while (true) link_.sender->send({});
        },
        ThrowsMessage<PeerGoneError>(
            StrEq("block 1 waited for block 2 to take a message: it is gone")));
  }
}

TEST_F(Wire, StaysDeadAfterADeadline) {
  open(test_options(1, 20ms));
  expect_refused("none came within 20 ms");
  expect_refused("none came within 20 ms");
  EXPECT_THROW(link_.sender->send({}), LinkError);
}

TEST_F(Wire, DeadlineStartsAnewWhileBytesArrive) {
  open(test_options(1, kWait));
  const Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  const auto head = encode_message(message, 1, FrameLimits{});
  const auto start = std::chrono::steady_clock::now();
  std::thread slow_peer([&] {
    write(head);
    for (int i = 0; i < 64; i += 4) {
      std::this_thread::sleep_for(100ms);  // a slow network, not a wait
      write(bytes_of(message.tensors[0]).subspan(i, 4));
    }
  });
  EXPECT_TRUE(link_.receiver->receive().has_value());
  slow_peer.join();
  EXPECT_GT(std::chrono::steady_clock::now() - start, kWait);
}

TEST_F(Wire, DeadlineStartsAnewWhileThePeersLearnerMoves) {
  open(test_options(1, kWait));
  std::thread busy_peer([&] {
    for (std::uint64_t progress = 1; progress <= 16; ++progress) {
      std::this_thread::sleep_for(100ms);  // it computes
      write(encode_frame({.type = FrameType::beat, .progress = progress}));
    }
    write_message(1);
  });
  EXPECT_TRUE(link_.receiver->receive().has_value());
  busy_peer.join();
}

TEST_F(Wire, DeadlinePassesThoughAPeerWhoseLearnerHangsStillBeats) {
  open(test_options(1, 300ms));
  std::atomic<bool> done = false;
  std::thread hung_peer([&] {
    while (!done) {
      write(encode_frame({.type = FrameType::beat, .progress = 5}));
      std::this_thread::sleep_for(20ms);
    }
  });
  expect_refused("none came within 300 ms");
  done = true;
  hung_peer.join();
}

TEST_F(Wire, BeatsAndTellsThatItsLearnerMoved) {
  LinkOptions options = test_options(2, kPatient);
  options.heartbeat = 10ms;
  open(options);
  EXPECT_EQ(next_beat().progress, 0u);
  io_.note_progress();
  while (next_beat().progress == 0) {
  }
  write_message(1);
  link_.receiver->receive();
  while (next_beat().progress == 1) {
  }
}

TEST_F(Wire, TellsWhatItReceived) {
  LinkOptions options = test_options(2, kPatient);
  options.heartbeat = 10ms;
  open(options);
  EXPECT_EQ(next_beat().received, 0u);
  write_message(1);
  while (next_beat().received == 0) {
  }
}

TEST_F(Wire, AFewCreditsDontWaitForLong) {
  LinkOptions options = test_options(1000, kPatient);
  options.heartbeat = kPatient;  // would take it along
  open(std::move(options));
  write_message(1);
  link_.receiver->receive();
  EXPECT_EQ(next_of(FrameType::credit).count, 1);
}

TEST_F(Wire, RefusesAPayloadThatWasDamaged) {
  open();
  const Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  write(encode_message(message, 1, FrameLimits{}, true));
  message.tensors[0].buffer.data[63] ^= std::byte{1};
  write(bytes_of(message.tensors[0]));
  expect_refused("message 1 was damaged");
}

TEST_F(Wire, TakesAPayloadWhoseChecksumIsRight) {
  open();
  const Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  write(encode_message(message, 1, FrameLimits{}, true));
  write(bytes_of(message.tensors[0]));
  EXPECT_TRUE(link_.receiver->receive().has_value());
}

// Larger than what is summed at once, and no multiple of it.
Message large_message() {
  return message_of(counting_tensor(DType::uint8, {(300 << 10) + 64}, {1}));
}

TEST_F(Wire, TakesALargePayloadWhoseChecksumIsRight) {
  open();
  const Message message = large_message();
  write(encode_message(message, 1, FrameLimits{}, true));
  write(bytes_of(message.tensors[0]));
  const auto received = link_.receiver->receive();
  EXPECT_TRUE(std::ranges::equal(bytes_of(received->tensors[0]),
                                 bytes_of(message.tensors[0])));
}

TEST_F(Wire, RefusesALargePayloadThatWasDamagedAnywhere) {
  for (const std::size_t where : {0, 200 << 10, (300 << 10) + 63}) {
    open();
    const Message message = large_message();
    write(encode_message(message, 1, FrameLimits{}, true));
    message.tensors[0].buffer.data[where] ^= std::byte{1};
    write(bytes_of(message.tensors[0]));
    expect_refused("message 1 was damaged");
    hang_up();
  }
}

// Where the memory is asked for, the message is read.
LinkOptions telling_who_reads(std::thread::id& reader) {
  LinkOptions options = test_options(1, kPatient);
  options.buffers = [&reader](std::size_t bytes) {
    reader = std::this_thread::get_id();
    return allocate_buffer(bytes);
  };
  return options;
}

// Which may be late, and the I/O thread earlier, but not every time.
TEST_F(Wire, IsReadByWhoWaits) {
  std::thread::id reader;
  open(telling_who_reads(reader));
  const Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  for (std::uint64_t i = 1; reader != std::this_thread::get_id(); ++i) {
    ASSERT_LE(i, 200);
    std::thread peer([&] {
      std::this_thread::sleep_for(20ms);
      write(encode_message(message, i, FrameLimits{}));
      write(bytes_of(message.tensors[0]));
    });
    link_.receiver->receive();
    peer.join();
  }
}

TEST_F(Wire, IsReadByTheThreadWhereABellIsWaitedFor) {
  std::thread::id reader;
  open(telling_who_reads(reader));
  const auto bell = std::make_shared<Bell>();
  link_.receiver->ring(bell);
  const Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  write(encode_message(message, 1, FrameLimits{}));
  write(bytes_of(message.tensors[0]));
  link_.receiver->receive();
  EXPECT_NE(reader, std::this_thread::get_id());
}

// Faster than they are read.
TEST_F(Wire, AFloodOfBeatsLeavesOthersTheirTurn) {
  open();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const boost::asio::generic::stream_protocol protocol(AF_UNIX, 0);
  const Link other =
      open_link(io_, Stream(Socket(io_.context(), protocol, ends[0])),
                test_options(1, kPatient));
  const std::vector<std::byte> beat = encode_frame(FrameType::beat);
  std::vector<std::byte> beats;
  for (int i = 0; i < 4096; ++i)
    beats.insert(beats.end(), beat.begin(), beat.end());
  std::atomic<bool> over = false;
  std::thread flood([&] {
    while (!over) write(beats);
  });
  std::this_thread::sleep_for(50ms);
  const std::vector<std::byte> message =
      encode_message({.batch = 7}, 1, FrameLimits{});
  EXPECT_EQ(::send(ends[1], message.data(), message.size(), 0),
            static_cast<ssize_t>(message.size()));
  EXPECT_EQ(other.receiver->receive()->batch, 7);
  over = true;
  flood.join();
  ::close(ends[1]);
}

TEST_F(Wire, IsDestroyedWithoutWaitingForThePeerToRead) {
  open();
  const TensorView big = counting_tensor(DType::uint8, {8 << 20}, {1});
  link_.sender->send(message_of(big));
  link_ = {};  // would hang here: it is this thread that would have to read
}

TEST(IoThread, EndsThoughAPeerNeverReads) {
  const auto use = [] {
    IoThread peer;
    IoThread io;
    auto [mine, theirs] = socket_pair(io, peer);
    Link link = open_link(io, std::move(mine), test_options(1, 20ms));
    link.sender->send(
        message_of(counting_tensor(DType::uint8, {8 << 20}, {1})));
  };  // would hang here
  EXPECT_NO_THROW(use());
}

TEST_F(Wire, RefusesBytesThatAreNoFrame) {
  open();
  const std::string request =
      "GET / HTTP/1.1\r\nHost: localhost:8080\r\n"
      "Accept: text/html and more\r\n\r\n";
  write(std::as_bytes(std::span(request)));
  expect_refused("no frame of Sluice");
}

TEST_F(Wire, RefusesASecondGreeting) {
  open();
  write(encode_hello({}));
  expect_refused("greeted twice");
}

TEST_F(Wire, RefusesAGapInTheSequence) {
  open();
  write_message(2);
  expect_refused("message 2 came after message 0");
}

TEST_F(Wire, RefusesMoreMessagesThanCredits) {
  open();
  write_message(1);
  write_message(2);
  wait_until_closed();  // or the first might be received, and credited, before
  EXPECT_TRUE(link_.receiver->receive().has_value());
  expect_refused("more than the 1 messages");
}

TEST_F(Wire, RefusesCreditsForWhatWasNotSent) {
  open();
  write(encode_frame({.type = FrameType::credit, .count = 1}));
  expect_refused("took 1 messages of 0");
}

TEST_F(Wire, RefusesMessagesAfterTheLast) {
  open();
  write(encode_frame(FrameType::bye));
  write_message(1);
  wait_until_closed();
  EXPECT_FALSE(link_.receiver->receive().has_value());
  EXPECT_THAT([&] { link_.sender->send({}); },
              ThrowsMessage<LinkError>(HasSubstr("after its last one")));
}

TEST_F(Wire, FailsWhenThePeerDiesWithinAMessage) {
  open();
  const Message message = message_of(counting_tensor(DType::uint8, {9}, {1}));
  write(encode_message(message, 1, FrameLimits{}));
  hang_up();
  expect_refused("it is gone");
}

TEST_F(Wire, AsksForNoMemoryBeforeTheShapeIsChecked) {
  std::atomic<int> asked = 0;
  LinkOptions options = test_options(1, kPatient);
  options.limits.max_payload_bytes = 1 << 20;
  options.buffers = [&asked](std::size_t bytes) {
    ++asked;
    return allocate_buffer(bytes);
  };
  open(options);
  TensorView huge{.sizes = {1 << 20}, .strides = {1}};
  huge.buffer.bytes = 4 << 20;
  write(encode_message(message_of(huge), 1, FrameLimits{}));
  expect_refused("payload of 4194304 bytes");
  EXPECT_EQ(asked, 0);
}

TEST_F(Wire, ReceivesIntoTheMemoryThatItWasGiven) {
  const Buffer mine = allocate_buffer(256);
  LinkOptions options = test_options(1, kPatient);
  options.buffers = [mine](std::size_t) { return mine; };
  open(options);
  const Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  write(encode_message(message, 1, FrameLimits{}));
  write(bytes_of(message.tensors[0]));
  const TensorView received = link_.receiver->receive()->tensors.at(0);
  EXPECT_EQ(received.buffer.data, mine.data);
  EXPECT_EQ(received.buffer.bytes, 64u);
}

TEST_F(Wire, RefusesMemoryThatIsNotAligned) {
  LinkOptions options = test_options(1, kPatient);
  options.buffers = [](std::size_t bytes) {
    Buffer buffer = allocate_buffer(bytes + 1);
    buffer.data += 1;
    return buffer;
  };
  open(options);
  write(encode_message(message_of(counting_tensor(DType::uint8, {64}, {1})), 1,
                       FrameLimits{}));
  expect_refused("no aligned memory");
}

TEST_F(Wire, WaitsUntilABufferIsReadyBeforeItSends) {
  open();
  Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  bool waited = false;
  message.tensors[0].buffer.wait_ready = [&waited] { waited = true; };
  link_.sender->send(std::move(message));
  EXPECT_TRUE(waited);
}

TEST_F(Wire, RefusesToSendWhatIsNotOnTheCpu) {
  open();
  Message message = message_of(counting_tensor(DType::uint8, {64}, {1}));
  message.tensors[0].buffer.device = {.kind = Device::Kind::cuda};
  EXPECT_THROW(link_.sender->send(std::move(message)), InternalError);
}

}  // namespace sluice::connection_test
