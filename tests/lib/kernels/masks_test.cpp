#include "lib/kernels/masks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/oracles/plain_philox.h"

namespace sluice::masks_test {

using Values = std::vector<float>;

constexpr std::uint64_t kKey = 0x0123'4567'89ab'cdef;

Values drawn(double p, std::uint64_t key, std::int64_t first,
             std::int64_t count) {
  Values mask(static_cast<std::size_t>(count));
  cpu_mask_kernels().fill(mask_rule(p, key), first, count, mask.data(),
                          nullptr);
  return mask;
}

TEST(Masks, AreThoseOfTheOracle) {
  for (const double p : {0.1, 0.2, 0.5, 0.75, 0.999})
    EXPECT_EQ(drawn(p, kKey, 0, 1000), plain_mask(p, kKey, 0, 1000)) << p;
}

TEST(Masks, MayBeginAndEndAnywhere) {
  const Values whole = plain_mask(0.3, kKey, 0, 700);
  for (std::int64_t first = 0; first < 300; ++first)
    for (const std::int64_t count : {0, 1, 3, 127, 128, 129, 400})
      EXPECT_EQ(drawn(0.3, kKey, first, count),
                Values(whole.begin() + first, whole.begin() + first + count))
          << first << " " << count;
}

/// Where the counter's low word overflows, and as far as indices go.
TEST(Masks, MasksOfHugeIndicesAreThoseOfTheOracle) {
  const std::int64_t overflow = std::int64_t{4} << 32;
  for (const std::int64_t first :
       {overflow - 333, 5 * overflow - 2, std::int64_t{1} << 62})
    EXPECT_EQ(drawn(0.3, kKey, first, 500), plain_mask(0.3, kKey, first, 500))
        << first;
}

TEST(Masks, DrawnInPartsAreTheWhole) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Values whole = drawn(0.4, seed, 0, 5000);
    Values parts;
    while (parts.size() < whole.size()) {
      const std::size_t count =
          std::min<std::size_t>(random() % 700, whole.size() - parts.size());
      const Values part =
          drawn(0.4, seed, static_cast<std::int64_t>(parts.size()),
                static_cast<std::int64_t>(count));
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(parts, whole);
  }
}

/// Elements in the other memory order, one by one.
Values reordered(const Values& mask, const ChannelsLast& shape) {
  Values result;
  const std::int64_t size = shape.channels * shape.pixels;
  for (std::int64_t n = 0; n < shape.samples; ++n)
    for (std::int64_t p = 0; p < shape.pixels; ++p)
      for (std::int64_t c = 0; c < shape.channels; ++c)
        result.push_back(
            mask[static_cast<std::size_t>(n * size + c * shape.pixels + p)]);
  return result;
}

TEST(Masks, WithChannelsLastHaveTheSameElements) {
  for (const ChannelsLast& shape :
       {ChannelsLast{0, 3, 5, 35}, ChannelsLast{0, 2, 40, 49},
        ChannelsLast{0, 1, 17, 1030}, ChannelsLast{7, 2, 33, 512},
        ChannelsLast{1, 2, 1, 9}, ChannelsLast{1, 2, 9, 1},
        ChannelsLast{0, 0, 9, 9}}) {
    const std::int64_t size = shape.channels * shape.pixels;
    const Values contiguous =
        drawn(0.3, kKey, shape.first_sample * size, shape.samples * size);
    Values mask(contiguous.size());
    cpu_mask_kernels().fill_channels_last(mask_rule(0.3, kKey), shape,
                                          mask.data(), nullptr);
    EXPECT_EQ(mask, reordered(contiguous, shape))
        << shape.channels << " channels, " << shape.pixels << " pixels";
  }
}

double share_kept(const Values& mask) {
  const auto dropped = std::count(mask.begin(), mask.end(), 0.0F);
  return 1 - static_cast<double>(dropped) / static_cast<double>(mask.size());
}

TEST(Masks, KeepTheShareThatTheyShall) {
  constexpr std::int64_t kCount = 40'000;
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    for (const double p : {0.05, 0.5, 0.9}) {
      const double deviation = std::sqrt(p * (1 - p) / kCount);
      EXPECT_NEAR(share_kept(drawn(p, seed, 0, kCount)), 1 - p, 5 * deviation)
          << "seed " << seed << ", p " << p;
    }
}

/// Masks of neighbouring keys agree in half of all elements at p = 1/2.
TEST(Masks, MasksOfDifferentKeysAreIndependent) {
  constexpr std::int64_t kCount = 40'000;
  for (std::uint64_t key = 1; key <= 50; ++key) {
    const Values one = drawn(0.5, key, 0, kCount);
    const Values other = drawn(0.5, key + 1, 0, kCount);
    std::int64_t same = 0;
    for (std::size_t i = 0; i < one.size(); ++i) same += one[i] == other[i];
    EXPECT_NEAR(static_cast<double>(same) / kCount, 0.5, 5 * 0.0025) << key;
  }
}

TEST(Masks, ElementsAreZeroOrScaled) {
  for (const float element : drawn(0.75, kKey, 0, 1000))
    EXPECT_TRUE(element == 0 || element == 4) << element;
}

TEST(Masks, MasksOfTinyProbabilitiesDropNothing) {
  EXPECT_EQ(drawn(0, kKey, 0, 1000), Values(1000, 1));
  EXPECT_EQ(drawn(1e-12, kKey, 0, 1000), Values(1000, 1));
}

TEST(Masks, MasksOfTheLargestProbabilityAreFinite) {
  const MaskRule rule = mask_rule(std::nextafter(1.0, 0.0), kKey);
  EXPECT_EQ(rule.dropped_below, 0xffff'ffffU);
  EXPECT_EQ(rule.kept, 0x1p53F);
}

}  // namespace sluice::masks_test
