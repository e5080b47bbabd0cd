#include "transport/wire/handshake.h"

#include <algorithm>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transport/test_secret.h"

namespace sluice::handshake_test {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Nonce nonce_of(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

Handshake caller(int nonce = 1, Versions versions = {1, 1},
                 const Secret& secret = test_secret()) {
  return {Side::caller,
          secret,
          {.versions = versions, .from = 1, .to = 2, .nonce = nonce_of(nonce)}};
}

Handshake called(int nonce = 2, Versions versions = {1, 1},
                 const Secret& secret = test_secret()) {
  return {Side::called,
          secret,
          {.versions = versions, .from = 2, .nonce = nonce_of(nonce)}};
}

// What each side sends, in order: greeting; greeting and proof; proof.
std::array<Bytes, 3> run(Handshake& a, Handshake& b) {
  std::array<Bytes, 3> sent;
  sent[0] = a.output();
  b.take(sent[0]);
  sent[1] = b.output();
  if (sent[1].empty()) return sent;
  a.take(sent[1]);
  sent[2] = a.output();
  if (!sent[2].empty()) b.take(sent[2]);
  return sent;
}

Bytes with_flipped_bit(Bytes bytes, std::size_t bit) {
  bytes[bit / 8] ^= std::byte{1} << bit % 8;
  return bytes;
}

TEST(Handshake, AgreesWhenBothHoldTheSecret) {
  Handshake a = caller();
  Handshake b = called();
  run(a, b);
  EXPECT_EQ(a.verdict(), Verdict::agreed);
  EXPECT_EQ(b.verdict(), Verdict::agreed);
}

TEST(Handshake, TellsWhoThePeerIs) {
  Handshake a = caller();
  Handshake b = called();
  run(a, b);
  EXPECT_EQ(a.theirs().from, 2u);
  EXPECT_EQ(b.theirs().from, 1u);
  EXPECT_EQ(b.theirs().to, 2u);
}

TEST(Handshake, IsThreeMessagesOfFixedSize) {
  Handshake a = caller();
  Handshake b = called();
  const auto sent = run(a, b);
  EXPECT_EQ(sent[0].size(), 64u);
  EXPECT_EQ(sent[1].size(), 96u);
  EXPECT_EQ(sent[2].size(), 32u);
}

TEST(Handshake, CallerRefusesACalledWithAnotherSecret) {
  Handshake a = caller();
  Handshake b = called(2, {1, 1}, other_secret());
  const auto sent = run(a, b);
  EXPECT_EQ(a.verdict(), Verdict::stranger);
  EXPECT_THAT(a.reason(), HasSubstr("does not hold this run's secret"));
  EXPECT_TRUE(sent[2].empty());  // and proves nothing to it
}

TEST(Handshake, CalledRefusesACallerWithAnotherSecret) {
  Handshake a = caller();
  Handshake b = called();
  b.take(a.output());
  b.take(Bytes(kProofBytes));
  EXPECT_EQ(b.verdict(), Verdict::stranger);
  EXPECT_THAT(b.reason(), HasSubstr("does not hold this run's secret"));
}

TEST(Handshake, HandshakeOfAnEarlierConnectionIsNoProof) {
  Handshake a = caller();
  Handshake earlier = called();
  const auto recorded = run(a, earlier);
  ASSERT_EQ(earlier.verdict(), Verdict::agreed);
  Handshake b = called(3);  // a nonce is never used twice
  b.take(recorded[0]);
  b.take(recorded[2]);
  EXPECT_EQ(b.verdict(), Verdict::stranger);
}

TEST(Handshake, ReflectedToTheCallerIsRefused) {
  Handshake a = caller();
  Bytes mirrored = a.output();
  mirrored.resize(a.awaited());
  a.take(mirrored);
  EXPECT_EQ(a.verdict(), Verdict::stranger);
  EXPECT_THAT(a.reason(), HasSubstr("our side"));
}

TEST(Handshake, ProofOfTheCalledIsNoProofOfTheCaller) {
  Handshake a = caller();
  Handshake b = called();
  b.take(a.output());
  const Bytes sent = b.output();
  b.take(std::span(sent).last(kProofBytes));
  EXPECT_EQ(b.verdict(), Verdict::stranger);
}

TEST(Handshake, FailsForEachBitThatChangedOnTheWayToTheCalled) {
  for (std::size_t bit = 0; bit < 8 * kGreetingBytes; ++bit) {
    Handshake a = caller();
    Handshake b = called();
    b.take(with_flipped_bit(a.output(), bit));
    if (b.verdict() == Verdict::stranger) continue;
    a.take(b.output());
    EXPECT_EQ(a.verdict(), Verdict::stranger) << bit;
  }
}

TEST(Handshake, FailsForEachBitThatChangedOnTheWayToTheCaller) {
  for (std::size_t bit = 0; bit < 8 * (kGreetingBytes + kProofBytes); ++bit) {
    Handshake a = caller();
    Handshake b = called();
    b.take(a.output());
    a.take(with_flipped_bit(b.output(), bit));
    EXPECT_EQ(a.verdict(), Verdict::stranger) << bit;
  }
}

TEST(Handshake, ChoosesTheNewestVersionThatBothSpeak) {
  Handshake a = caller(1, {1, 4});
  Handshake b = called(2, {2, 3});
  run(a, b);
  EXPECT_EQ(a.version(), 3);
  EXPECT_EQ(b.version(), 3);
}

TEST(Handshake, WithoutACommonVersionFailsOnBothSidesAndSaysWhy) {
  Handshake a = caller(1, {1, 2});
  Handshake b = called(2, {3, 4});
  run(a, b);
  EXPECT_EQ(a.verdict(), Verdict::other_version);
  EXPECT_EQ(b.verdict(), Verdict::other_version);
  EXPECT_THAT(a.reason(), HasSubstr("speaks versions 3 to 4"));
  EXPECT_THAT(b.reason(), HasSubstr("speaks versions 1 to 2"));
}

TEST(Handshake, StrangerOfAnotherVersionIsAStranger) {
  Handshake a = caller(1, {1, 2}, other_secret());
  Handshake b = called(2, {3, 4});
  run(a, b);
  EXPECT_EQ(a.verdict(), Verdict::stranger);
}

TEST(Handshake, GivesBothSidesTheSameSession) {
  Handshake a = caller();
  Handshake b = called();
  run(a, b);
  EXPECT_EQ(a.session(), b.session());
}

TEST(Handshake, GivesEachConnectionASessionOfItsOwn) {
  Handshake a = caller(1);
  Handshake b = called(2);
  Handshake c = caller(3);
  Handshake d = called(4);
  run(a, b);
  run(c, d);
  EXPECT_NE(a.session(), c.session());
}

}  // namespace sluice::handshake_test
