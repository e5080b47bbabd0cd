#include "transport/links/hello.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::hello_test {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Bytes = std::vector<std::byte>;

Bytes block_of(const Hello& hello) {
  const Bytes frame = encode_hello(hello);
  return {frame.begin() + kHeaderBytes, frame.end()};
}

TEST(Hello, IsReadAsItWasWritten) {
  const Hello hello = decode_hello(block_of({.from = 1,
                                             .to = 2,
                                             .blocks = 3,
                                             .capacity_send = 4,
                                             .capacity_receive = 5,
                                             .reconnect_ms = 6,
                                             .session = {std::byte{7}},
                                             .received = 8,
                                             .taken = 9,
                                             .addresses = {"/tmp/a", ""},
                                             .run = "seed = 1",
                                             .refusal = "no"}));
  EXPECT_EQ(hello.from, 1u);
  EXPECT_EQ(hello.to, 2u);
  EXPECT_EQ(hello.blocks, 3u);
  EXPECT_EQ(hello.capacity_send, 4u);
  EXPECT_EQ(hello.capacity_receive, 5u);
  EXPECT_EQ(hello.reconnect_ms, 6u);
  EXPECT_EQ(hello.session, Session{std::byte{7}});
  EXPECT_EQ(hello.received, 8u);
  EXPECT_EQ(hello.taken, 9u);
  EXPECT_EQ(hello.addresses, (std::vector<std::string>{"/tmp/a", ""}));
  EXPECT_EQ(hello.run, "seed = 1");
  EXPECT_EQ(hello.refusal, "no");
}

TEST(Hello, IsRefusedWhenCutWithinItsFields) {
  const Bytes block =
      block_of({.addresses = {"/tmp/a"}, .run = "r", .refusal = "no"});
  for (std::size_t length = 0; length < 80 + 2 + 6 + 1 + 2; ++length) {
    EXPECT_THROW(decode_hello(std::span(block).first(length)), LinkError);
  }
}

TEST(Hello, WithTooManyAddressesIsRefused) {
  Bytes block = block_of({});
  const std::uint32_t many = 0xFFFFFFFF;
  std::memcpy(block.data() + 12, &many, sizeof many);
  EXPECT_THROW(decode_hello(block), LinkError);
}

TEST(Hello, WithALongAddressIsRefused) {
  Bytes block = block_of({.addresses = {"a"}});
  const std::uint16_t length = 257;
  std::memcpy(block.data() + 80, &length, sizeof length);
  EXPECT_THROW(decode_hello(block), LinkError);
}

TEST(Hello, WithALongTextOfItsRunIsRefused) {
  constexpr std::size_t kRunBytes = 72;
  Bytes block = block_of({.run = std::string(kMaxRunText, 'r')});
  EXPECT_EQ(decode_hello(block).run.size(), kMaxRunText);
  const auto length = static_cast<std::uint32_t>(kMaxRunText + 1);
  std::memcpy(block.data() + kRunBytes, &length, sizeof length);
  EXPECT_THROW(decode_hello(block), LinkError);
  EXPECT_THROW(block_of({.run = std::string(kMaxRunText + 1, 'r')}), UserError);
}

TEST(Hello, WithARefusalIsNoAgreement) {
  const Hello mine{.from = 1, .to = 2};
  const Hello theirs{.from = 2, .to = 1, .refusal = "seed is 9, not 1"};
  EXPECT_THROW(check_agreement(mine, theirs), Disagreement);
}

constexpr auto kText = [](const Hello& mine, const Hello& theirs) {
  return [=] { check_agreement(mine, theirs); };
};

TEST(Agreement, IsBetweenTheTwoEndsOfALink) {
  const Hello mine{.from = 1, .to = 2, .capacity_send = 3};
  EXPECT_NO_THROW(
      check_agreement(mine, {.from = 2, .to = 1, .capacity_receive = 3}));
}

TEST(Agreement, FailsForAnotherBlock) {
  EXPECT_THAT(kText({.from = 1, .to = 2}, {.from = 3, .to = 1}),
              ThrowsMessage<LinkError>(
                  HasSubstr("block 1 expected block 2, but met block 3")));
}

TEST(Agreement, FailsForAnotherNumberOfBlocks) {
  EXPECT_THAT(kText({.from = 1, .to = 0, .blocks = 2},
                    {.from = 0, .to = 1, .blocks = 3}),
              ThrowsMessage<LinkError>(HasSubstr("the launcher to one of 3")));
}

TEST(Agreement, FailsForAnotherCapacity) {
  EXPECT_THAT(kText({.from = 1, .to = 2, .capacity_send = 3},
                    {.from = 2, .to = 1, .capacity_receive = 4}),
              ThrowsMessage<LinkError>(HasSubstr("it sends 3 and")));
}

TEST(Agreement, FailsForAnotherReconnection) {
  EXPECT_THAT(kText({.from = 1, .to = 2, .reconnect_ms = 5},
                    {.from = 2, .to = 1, .reconnect_ms = 6}),
              ThrowsMessage<LinkError>(HasSubstr("5 ms and 6 ms")));
}

TEST(Agreement, IsFencedForAnotherSession) {
  EXPECT_THROW(check_agreement({.from = 1, .to = 2, .session = {std::byte{1}}},
                               {.from = 2, .to = 1, .session = {std::byte{2}}}),
               FencedLinkError);
}

}  // namespace sluice::hello_test
