// Numbers of Philox4x32-10 that its authors published: kat_vectors of the
// Random123 distribution, version 1.14.
#include "lib/kernels/philox.h"

#include <array>
#include <cstdint>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/plain_philox.h"

namespace sluice::philox_test {

using Words = std::array<std::uint32_t, 4>;
using testing::ElementsAreArray;

struct KnownAnswer {
  const char* name;
  Words counter;
  std::array<std::uint32_t, 2> key;
  Words numbers;
};

constexpr KnownAnswer kKnown[] = {
    {"OfZeros",
     {0, 0, 0, 0},
     {0, 0},
     {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {"OfOnes",
     {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {"OfPi",
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

PhiloxWords words_of(const Words& from) {
  return {{from[0], from[1], from[2], from[3]}};
}

class Philox : public testing::TestWithParam<KnownAnswer> {};

TEST_P(Philox, GivesTheKnownNumbers) {
  const KnownAnswer& known = GetParam();
  const std::uint64_t key = known.key[0] | std::uint64_t{known.key[1]} << 32;
  const PhiloxWords numbers = philox(words_of(known.counter), key);
  EXPECT_THAT(numbers.word, ElementsAreArray(known.numbers));
}

TEST_P(Philox, PhiloxOfTheOracleGivesTheKnownNumbers) {
  const KnownAnswer& known = GetParam();
  const PlainPhilox oracle = {{known.key[0], known.key[1]}};
  const Words& from = known.counter;
  EXPECT_THAT(oracle.numbers({from[0], from[1], from[2], from[3]}),
              ElementsAreArray(known.numbers));
}

INSTANTIATE_TEST_SUITE_P(Known, Philox, testing::ValuesIn(kKnown),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(PhiloxNumbers, AreThoseOfTheOracle) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t key = random();
    const Words from = {
        static_cast<std::uint32_t>(random()),
        static_cast<std::uint32_t>(random()),
        static_cast<std::uint32_t>(random()),
        static_cast<std::uint32_t>(random()),
    };
    EXPECT_THAT(philox(words_of(from), key).word,
                ElementsAreArray(plain_philox(key).numbers(
                    {from[0], from[1], from[2], from[3]})));
  }
}

}  // namespace sluice::philox_test
