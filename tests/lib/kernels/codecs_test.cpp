#include "lib/kernels/codecs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/lib/kernels/numbers.h"

namespace sluice::codecs_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const CodecKernels& cpu() {
  return cpu_codec_kernels();
}

std::int64_t size_of_all(const std::vector<float>& values) {
  return static_cast<std::int64_t>(values.size());
}

struct Rows {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};

Rows int8_of_rows(const std::vector<float>& values, std::int64_t rows) {
  Rows encoded{std::vector<std::int8_t>(values.size()),
               std::vector<float>(static_cast<std::size_t>(rows))};
  cpu().encode_int8(values.data(), rows, size_of_all(values) / rows,
                    encoded.codes.data(), encoded.scales.data(), nullptr);
  return encoded;
}

std::vector<float> floats_of(const Rows& encoded) {
  std::vector<float> values(encoded.codes.size());
  const auto rows = size_of_all(encoded.scales);
  cpu().decode_int8(encoded.codes.data(), encoded.scales.data(), rows,
                    size_of_all(values) / rows, values.data(), nullptr);
  return values;
}

std::vector<float> through_int8(const std::vector<float>& values,
                                std::int64_t rows) {
  return floats_of(int8_of_rows(values, rows));
}

using Values = std::vector<float>;

TEST(Int8, IsNoFurtherThanHalfAStepOfItsRow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr std::int64_t kRows = 7;
    const Values values = numbers_of_all_sizes(seed, kRows * 613, 1e3);
    const Rows encoded = int8_of_rows(values, kRows);
    const Values back = floats_of(encoded);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double step = encoded.scales[i / 613] / 127.;
      // The quotient is rounded before it is rounded to a code.
      ASSERT_LE(std::fabs(double{back[i]} - values[i]), step / 2 * 1.0001);
    }
  }
}

TEST(Int8, SendsTheLargestMagnitudeAsTheScale) {
  EXPECT_EQ(int8_of_rows({1, -3, 2, 0.5F, 0.25F, 0}, 2).scales,
            (Values{3, 0.5F}));
}

TEST(Int8, KeepsTheLargestAndWholeStepsExactly) {
  const Values values = {-127, 127, 1, 5, -99, 0};
  EXPECT_EQ(through_int8(values, 1), values);
}

TEST(Int8, RoundsHalfToEven) {
  EXPECT_EQ(int8_of_rows({254, 1, 3, 5, -1, -3}, 1).codes,
            (std::vector<std::int8_t>{127, 0, 2, 2, 0, -2}));
}

TEST(Int8, RowsAreIndependent) {
  const Values alone = through_int8({0.1F, 0.2F, 0.3F}, 1);
  const Values together = through_int8({1e6F, 2, 3, 0.1F, 0.2F, 0.3F}, 2);
  EXPECT_EQ(Values(together.begin() + 3, together.end()), alone);
  // In one row the large number leaves nothing of the small ones.
  EXPECT_EQ(through_int8({1e6F, 2, 3, 0.1F, 0.2F, 0.3F}, 1)[5], 0);
}

TEST(Int8, RowOfZerosHasScaleZero) {
  const Rows encoded = int8_of_rows({0, -0.0F, 0}, 1);
  EXPECT_EQ(encoded.scales[0], 0);
  EXPECT_EQ(floats_of(encoded), (Values{0, 0, 0}));
}

TEST(Int8, RowOfTheTiniestNumbersHasNoNan) {
  const float tiniest = std::numeric_limits<float>::denorm_min();
  const Values values = {tiniest, -tiniest, 0};
  EXPECT_EQ(through_int8(values, 1), values);
}

TEST(Int8, RowWithNanOrInfinityBecomesNanAndOthersDoNot) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    const Values back = through_int8({1, bad, 0, 1, 2, 3}, 2);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(back[i])) << bad;
    EXPECT_EQ(back[5], 3);
  }
}

TEST(Int8, LargestNumberDoesNotOverflow) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(through_int8({largest, -largest}, 1), (Values{largest, -largest}));
}

TEST(Int8, ChangesNothingTheSecondTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Values values = numbers_of_all_sizes(seed, 4099, 1e5);
    const Values int8 = through_int8(values, 1);
    EXPECT_EQ(through_int8(int8, 1), int8);
    EXPECT_NE(int8, values);
  }
}

TEST(Int8, TakesNothing) {
  EXPECT_EQ(int8_of_rows({}, 1).scales, Values{0});
}

}  // namespace sluice::codecs_test
