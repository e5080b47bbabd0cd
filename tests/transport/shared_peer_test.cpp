// What a peer can do wrong in shared memory. The contract of the link itself is
// in channel_contract_test.cpp.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "tests/transport/links_under_test.h"
#include "transport/shared/shared_frames.h"
#include "transport/shared/shared_memory.h"
#include "transport/shared/shared_offer.h"
#include "transport/wire/bytes.h"
#include "transport/wire/frame.h"

namespace sluice::shared_peer_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr Deadline kPatient = 60s;
// Many times as long as a step of a slow peer, which a busy machine makes
// slower; the steps together are longer.
constexpr Deadline kWait = 1200ms;
constexpr AreaShape kShape{
    .ring_bytes = 64 << 10, .slots = 2, .slot_bytes = 4096};

// A link whose other end is the test: a socket, an area, and no manners.
class SharedPeer : public testing::Test {
 protected:
  void open(LinkOptions options = test_options(1, kPatient)) {
    auto [theirs, mine] = socket_pair(io_, peer_io_);
    socket_ = std::make_unique<Socket>(std::move(mine.socket()));
    link_ = open_shared_link(io_, std::move(theirs), std::move(options));
  }
  template <class Result>
  Result wait_for(boost::asio::awaitable<Result> what) {
    return boost::asio::co_spawn(peer_io_.context(), std::move(what),
                                 boost::asio::use_future)
        .get();
  }
  void offer() {
    const OfferedFiles files{file_.get(), bell_.descriptor(),
                             bell_.descriptor()};
    wait_for(send_offer(*socket_, kShape, files));
  }
  void meet(LinkOptions options = test_options(1, kPatient)) {
    open(std::move(options));
    offer();
    theirs_ = std::make_unique<Offer>(wait_for(receive_offer(*socket_)));
    theirs_area_ = SharedArea::adopt(theirs_->shape, theirs_->memory);
  }
  void write(std::span<const std::byte> bytes) {
    writer_.write(bytes);
    if (writer_.publish()) theirs_->end_bell.ring();
  }
  // A tensor of 64 bytes, said to lie there.
  void write_placed(std::uint32_t slot, std::int64_t bytes = 64) {
    TensorView tensor{.dtype = DType::uint8, .sizes = {bytes}, .strides = {1}};
    tensor.buffer.bytes = static_cast<std::size_t>(bytes);
    write(encode_message(message_of(tensor), 1, FrameLimits{}));
    std::array<std::byte, kAlignment> places = {};
    std::memcpy(places.data(), &slot, sizeof slot);
    write(places);
  }
  void hang_up() { socket_->close(); }
  void expect_refused(const std::string& why) {
    EXPECT_THAT([&] { link_.receiver->receive(); },
                ThrowsMessage<LinkError>(HasSubstr(why)));
  }

  IoThread io_;
  IoThread peer_io_;
  FileDescriptor file_;
  std::shared_ptr<SharedArea> area_ = SharedArea::make(kShape, file_);
  RingWriter writer_{area_->words(), area_->ring()};
  EventFd bell_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<Offer> theirs_;
  std::shared_ptr<SharedArea> theirs_area_;
  Link link_;
};

TEST_F(SharedPeer, IsUnderstoodWhenItDoesAsTheFormatSays) {
  meet();
  write_placed(1);
  area_->slot(1)[3] = std::byte{9};
  const TensorView tensor = link_.receiver->receive()->tensors.at(0);
  EXPECT_EQ(tensor.buffer.bytes, 64u);
  EXPECT_EQ(tensor.buffer.data[3], std::byte{9});
}

TEST_F(SharedPeer, ThatDiesIsNamed) {
  meet();
  hang_up();
  EXPECT_THAT([&] { link_.receiver->receive(); },
              ThrowsMessage<LinkError>(
                  AllOf(HasSubstr("block 1 waited for a message from block 2"),
                        HasSubstr("it is gone"))));
  EXPECT_THAT([&] { link_.sender->send({}); },
              ThrowsMessage<LinkError>(
                  HasSubstr("block 1 waited for block 2 to take a message")));
}

TEST_F(SharedPeer, ThatDiesBeforeItsOfferIsNamed) {
  open();
  hang_up();
  expect_refused("it is gone");
}

TEST_F(SharedPeer, ThatDiesWithinAMessageFailsIt) {
  meet(test_options(2, kPatient));
  write(encode_message({.batch = 7}, 1, FrameLimits{}));
  const auto half = encode_message({.batch = 8}, 2, FrameLimits{});
  write(std::span(half).first(64));
  hang_up();
  EXPECT_EQ(link_.receiver->receive()->batch, 7);
  expect_refused("it is gone");
}

TEST_F(SharedPeer, MayNotWriteWhatIsNoFrame) {
  meet();
  write(std::array<std::byte, 64>{});
  expect_refused("no frame of Sluice");
}

TEST_F(SharedPeer, MayNotGreetInTheRing) {
  meet();
  write(encode_hello({}));
  expect_refused("greeted twice");
}

TEST_F(SharedPeer, MayNotSayThatItWroteMoreThanFits) {
  meet();
  area_->words().tail = (64 << 10) + 1;
  expect_refused("its ring in shared memory is damaged");
}

TEST_F(SharedPeer, MayNotSayThatItReadMoreThanWasWritten) {
  meet();
  theirs_area_->words().head = 1;
  EXPECT_THAT(
      [&] {
        link_.sender->send({});
        link_.sender->send({});
      },
      ThrowsMessage<LinkError>(HasSubstr("is damaged")));
}

TEST_F(SharedPeer, MayScribbleOverTheIndicesOfTheLink) {
  meet();
  area_->words().head = 12345;
  theirs_area_->words().tail = 54321;
  link_.sender->send({.batch = 1});
  write(encode_message({.batch = 7}, 1, FrameLimits{}));
  EXPECT_EQ(link_.receiver->receive()->batch, 7);
}

TEST_F(SharedPeer, MayNotNameASlotThatIsNotThere) {
  meet();
  write_placed(2);
  expect_refused("tensor of 64 bytes in slot 2; there are 2 of 4096 bytes");
}

TEST_F(SharedPeer, MayNotNameASlotThatIsTooSmall) {
  meet();
  write_placed(0, 4097);
  expect_refused("tensor of 4097 bytes in slot 0");
}

TEST_F(SharedPeer, TakesNoMemoryBeforeTheShapeIsChecked) {
  std::atomic<int> asked = 0;
  LinkOptions options = test_options(1, kPatient);
  options.limits.max_payload_bytes = 1 << 20;
  options.buffers = [&asked](std::size_t bytes) {
    ++asked;
    return allocate_buffer(bytes);
  };
  meet(options);
  write_placed(kInRing, 4 << 20);
  expect_refused("payload of 4194304 bytes");
  EXPECT_EQ(asked, 0);
}

TEST_F(SharedPeer, ThatHangsIsGivenUpAfterTheDeadline) {
  meet(test_options(1, 20ms));
  expect_refused("none came within 20 ms");
  expect_refused("none came within 20 ms");
  EXPECT_THROW(link_.sender->send({}), LinkError);
}

TEST_F(SharedPeer, ThatNeverOffersIsGivenUpAfterTheDeadline) {
  open(test_options(1, 20ms));
  expect_refused("none came within 20 ms");
}

TEST_F(SharedPeer, ThatTakesNothingIsGivenUpAfterTheDeadline) {
  meet(test_options(1, 20ms));
  link_.sender->send({});
  EXPECT_THAT([&] { link_.sender->send({}); },
              ThrowsMessage<LinkError>(
                  HasSubstr("it took none of 1 messages within 20 ms")));
}

TEST_F(SharedPeer, IsWaitedForWhileBytesArrive) {
  meet(test_options(1, kWait));
  const auto frame = encode_message({.batch = 7}, 1, FrameLimits{});
  const auto start = std::chrono::steady_clock::now();
  std::thread slow_peer([&] {
    for (std::size_t i = 0; i < frame.size(); i += 8) {
      std::this_thread::sleep_for(100ms);  // a slow peer, not a wait
      write(std::span(frame).subspan(i, 8));
    }
  });
  EXPECT_TRUE(link_.receiver->receive().has_value());
  slow_peer.join();
  EXPECT_GT(std::chrono::steady_clock::now() - start, kWait);
}

TEST_F(SharedPeer, IsWaitedForWhileItReads) {
  meet(test_options(1, kWait));
  link_.sender->send(message_of(counting_tensor(DType::uint8, {1600}, {1})));
  const auto start = std::chrono::steady_clock::now();
  std::thread slow_peer([&] {
    RingReader reader(theirs_area_->words(), theirs_area_->ring());
    for (int i = 0; i < 16; ++i) {
      std::this_thread::sleep_for(100ms);  // a slow peer, not a wait
      reader.skip(64);
      reader.release();
    }
    write(encode_frame(FrameHeader{.type = FrameType::credit, .count = 1}));
  });
  link_.sender->send({});
  slow_peer.join();
  EXPECT_GT(std::chrono::steady_clock::now() - start, kWait);
}

TEST_F(SharedPeer, IsWaitedForWhileItsLearnerMoves) {
  meet(test_options(1, kWait));
  const auto start = std::chrono::steady_clock::now();
  std::thread busy_peer([&] {
    for (int i = 0; i < 16; ++i) {
      std::this_thread::sleep_for(100ms);  // a busy peer, not a wait
      ++area_->words().progress;
    }
    write(encode_message({.batch = 7}, 1, FrameLimits{}));
  });
  EXPECT_TRUE(link_.receiver->receive().has_value());
  busy_peer.join();
  EXPECT_GT(std::chrono::steady_clock::now() - start, kWait);
}

TEST_F(SharedPeer, SeesThatTheLearnerMoved) {
  LinkOptions options = test_options(1, kPatient);
  options.heartbeat = 10ms;
  meet(options);
  const auto& progress = theirs_area_->words().progress;
  EXPECT_EQ(progress.load(), 0u);
  io_.note_progress();
  const auto end = std::chrono::steady_clock::now() + kPatient;
  while (progress.load() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(progress.load(), 1u);
}

TEST_F(SharedPeer, MayNotWriteToTheSocket) {
  meet();
  boost::asio::write(*socket_, boost::asio::buffer("?", 1));
  expect_refused("it wrote where it has nothing to say");
}

TEST_F(SharedPeer, MustOfferSharedMemory) {
  open();
  boost::asio::write(*socket_, boost::asio::buffer(std::string(64, '?')));
  expect_refused("no offer of shared memory");
}

TEST_F(SharedPeer, MustPassItsMemoryWithTheOffer) {
  open();
  boost::asio::write(*socket_, boost::asio::buffer(encode_shape(kShape)));
  expect_refused("0 descriptors instead of 3");
}

TEST_F(SharedPeer, MustPassBellsThatRing) {
  open();
  const OfferedFiles files{file_.get(), file_.get(), bell_.descriptor()};
  wait_for(send_offer(*socket_, kShape, files));
  expect_refused("something else than an eventfd");
}

TEST(SharedOffer, ShapeTravelsUnchanged) {
  EXPECT_EQ(decode_shape(encode_shape(kShape)), kShape);
}

TEST(SharedOffer, SharedOfferOfAnotherVersionIsRefused) {
  auto bytes = encode_shape(kShape);
  bytes[4] = std::byte{9};
  EXPECT_THAT([&] { decode_shape(bytes); },
              ThrowsMessage<LinkError>(HasSubstr("version 9")));
}

}  // namespace sluice::shared_peer_test
