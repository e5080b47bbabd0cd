// What a mailbox writes when, without a socket.
#include "transport/wire/mailbox.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/transport/links_under_test.h"
#include "transport/wire/frame.h"

namespace sluice::mailbox_test {

using namespace std::chrono_literals;
using Credits = Mailbox::Credits;

// A mailbox of a link that holds four messages, and its peer.
class FourPlaces : public testing::Test {
 protected:
  void come(std::uint64_t messages) {
    for (; messages > 0; --messages) {
      ASSERT_TRUE(
          mailbox_.admit({.type = FrameType::data, .sequence = ++came_}));
      mailbox_.deliver({});
    }
  }
  void take(int messages) {
    for (; messages > 0; --messages) EXPECT_TRUE(mailbox_.receive());
  }
  // The frames of what is to be written.
  std::vector<FrameHeader> next(Credits credits) {
    const OutgoingFrames out = mailbox_.next(credits);
    std::vector<FrameHeader> frames;
    std::span<const std::byte> left(out.head);
    while (!left.empty()) {
      frames.push_back(
          decode_header(left.first<kHeaderBytes>(), FrameLimits{}));
      left = left.subspan(kHeaderBytes + frames.back().block_bytes);
    }
    return frames;
  }

  Mailbox mailbox_{test_options(4, 60s), {}};
  std::uint64_t came_ = 0;
};

TEST_F(FourPlaces, OneCreditIsNotWorthAFrame) {
  come(1);
  take(1);
  EXPECT_TRUE(next(Credits::many).empty());
  EXPECT_TRUE(mailbox_.owes_credits());
}

TEST_F(FourPlaces, HalfOfTheCreditsAre) {
  come(2);
  take(2);
  const auto frames = next(Credits::many);
  ASSERT_EQ(frames.size(), 1);
  EXPECT_EQ(frames[0].type, FrameType::credit);
  EXPECT_EQ(frames[0].count, 2);
  EXPECT_FALSE(mailbox_.owes_credits());
}

TEST_F(FourPlaces, OneCreditTravelsWithAMessage) {
  come(1);
  take(1);
  mailbox_.send(mailbox_.prepare({}));
  const auto frames = next(Credits::many);
  ASSERT_EQ(frames.size(), 2);
  EXPECT_EQ(frames[0].type, FrameType::credit);
  EXPECT_EQ(frames[1].type, FrameType::data);
}

TEST_F(FourPlaces, OneCreditTravelsWithAHeartbeat) {
  come(1);
  take(1);
  mailbox_.beat(1);
  EXPECT_EQ(next(Credits::many).size(), 2);
}

TEST_F(FourPlaces, OneCreditIsWrittenWhenAllAreWanted) {
  come(1);
  take(1);
  EXPECT_EQ(next(Credits::all).size(), 1);
  EXPECT_FALSE(mailbox_.owes_credits());
}

TEST_F(FourPlaces, FourMessagesAreSentAndNoMore) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(mailbox_.can_send());
    mailbox_.send(mailbox_.prepare({}));
  }
  EXPECT_FALSE(mailbox_.can_send());
  EXPECT_THROW(mailbox_.send(mailbox_.prepare({})), InternalError);
  mailbox_.heard_credit({.type = FrameType::credit, .count = 1});
  EXPECT_TRUE(mailbox_.can_send());
}

TEST_F(FourPlaces, NothingIsReceivedBeforeItComes) {
  EXPECT_FALSE(mailbox_.ready());
  EXPECT_THROW(mailbox_.receive(), InternalError);
}

TEST_F(FourPlaces, GivenUpBothEndsSayWhy) {
  mailbox_.give_up_receiving();
  EXPECT_THROW(mailbox_.receive(), LinkError);
  EXPECT_THROW(mailbox_.send(mailbox_.prepare({})), LinkError);
  EXPECT_FALSE(mailbox_.reading());
}

}  // namespace sluice::mailbox_test
