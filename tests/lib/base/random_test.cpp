#include "lib/base/random.h"

#include <array>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::random_test {

TEST(RandomKey, IsTheSameOnEveryMachine) {
  EXPECT_EQ(random_key({}), 16294208416658607535ULL);
  EXPECT_EQ(random_key({1, 2, 3}), 10741916690289330841ULL);
}

TEST(RandomKey, DependsOnTheOrderOfItsParts) {
  EXPECT_NE(random_key({1, 2}), random_key({2, 1}));
}

TEST(RandomKey, DependsOnTheNumberOfItsParts) {
  EXPECT_NE(random_key({}), random_key({0}));
  EXPECT_NE(random_key({7}), random_key({7, 0}));
  EXPECT_NE(random_key({0, 7}), random_key({7}));
}

TEST(KeyPart, IsFnv1a) {
  // Test vectors of the FNV authors.
  EXPECT_EQ(key_part(""), 0xcbf29ce484222325);
  EXPECT_EQ(key_part("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(key_part("foobar"), 0x85944171f73967e8);
}

TEST(KeyedRandom, IsSplitMix64) {
  // The published first values for the seed 1234567.
  KeyedRandom random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(KeyedRandom, CopiesGoOnAlike) {
  KeyedRandom first(5);
  first.next();
  KeyedRandom second = first;
  EXPECT_EQ(first.next(), second.next());
}

TEST(KeyedRandom, UniformIsEvenlySpread) {
  KeyedRandom random(random_key({1}));
  std::array<int, 10> counts = {};
  for (int i = 0; i < 100000; ++i) {
    counts.at(static_cast<std::size_t>(random.uniform() * 10)) += 1;
  }
  // Five standard deviations of a binomial with n = 100000, p = 0.1.
  for (const int count : counts) EXPECT_NEAR(count, 10000, 475);
}

TEST(KeyedRandom, UniformStaysInItsRange) {
  KeyedRandom random(random_key({2}));
  for (int i = 0; i < 1000; ++i) {
    const double value = random.uniform(-3.0, -2.0);
    EXPECT_GE(value, -3.0);
    EXPECT_LT(value, -2.0);
  }
}

TEST(KeyedRandom, BelowIsUnbiased) {
  // With 3/4 of the range as bound, a plain remainder would give the lowest
  // third of the values half of the draws instead of a third.
  const std::uint64_t bound = 3ULL << 62;
  KeyedRandom random(random_key({3}));
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += random.below(bound) < bound / 3;
  EXPECT_NEAR(low, 10000, 410);
}

TEST(KeyedRandom, BelowOneIsZero) {
  KeyedRandom random(4);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(KeyedRandom, BelowZeroIsABug) {
  KeyedRandom random(4);
  EXPECT_THROW(random.below(0), InternalError);
}

TEST(KeyedRandom, NormalHasMeanZeroAndDeviationOne) {
  KeyedRandom random(random_key({5}));
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 100000, 0.0, 0.016);
  EXPECT_NEAR(squares / 100000, 1.0, 0.023);
}

}  // namespace sluice::random_test
