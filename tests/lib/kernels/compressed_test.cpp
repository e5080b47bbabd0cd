#include "lib/kernels/compressed.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/lib/kernels/numbers.h"

namespace sluice::compressed_test {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One way of writing numbers, with its reader.
struct Form {
  const char* name;
  void (*encode)(std::span<const float>, EncodedBytes&);
  void (*decode)(EncodedReader&, std::span<float>);
};

constexpr std::size_t kElements = 240;
constexpr std::size_t kRow = 48;
constexpr Levels kLevels = {.levels = 5, .bucket = 100};

std::vector<Form> forms() {
  return {
      {"sparse",
       [](std::span<const float> values, EncodedBytes& out) {
         encode_sparse(values, largest(values, 17), out);
       },
       [](EncodedReader& in, std::span<float> values) {
         decode_sparse(in, values);
       }},
      {"steps",
       [](std::span<const float> values, EncodedBytes& out) {
         encode_steps(values, 0.01F, out);
       },
       [](EncodedReader& in, std::span<float> values) {
         decode_steps(in, 0.01F, values);
       }},
      {"halves",
       [](std::span<const float> values, EncodedBytes& out) {
         encode_halves(values, kRow, out);
       },
       [](EncodedReader& in, std::span<float> values) {
         decode_halves(in, kRow, values);
       }},
      {"signs",
       [](std::span<const float> values, EncodedBytes& out) {
         encode_signs(values, true, out);
       },
       [](EncodedReader& in, std::span<float> values) {
         decode_signs(in, true, values);
       }},
      {"levels",
       [](std::span<const float> values, EncodedBytes& out) {
         encode_levels(values, kLevels, 7, out);
       },
       [](EncodedReader& in, std::span<float> values) {
         decode_levels(in, kLevels, values);
       }},
  };
}

std::vector<float> some_numbers() {
  return numbers_of_all_sizes(3, kElements, 1);
}

EncodedBytes encoded(const Form& form) {
  EncodedBytes bytes;
  form.encode(some_numbers(), bytes);
  return bytes;
}

std::vector<float> decoded(const Form& form, std::span<const std::byte> bytes) {
  std::vector<float> values(kElements, kNan);
  EncodedReader in(bytes);
  form.decode(in, values);
  in.finish();
  return values;
}

TEST(Compressed, AppendsItsBytesBehindOthersAndReadsNoneOfThem) {
  for (const Form& form : forms()) {
    EncodedBytes twice = encoded(form);
    const std::size_t once = twice.size();
    form.encode(some_numbers(), twice);
    EXPECT_EQ(twice.size(), 2 * once) << form.name;
    std::vector<float> values(kElements, kNan);
    EncodedReader in(twice);
    form.decode(in, values);
    EXPECT_EQ(values, decoded(form, encoded(form))) << form.name;
    form.decode(in, values);
    in.finish();
  }
}

TEST(Compressed, IsRefusedWhereItEndsTooEarlyOrTooLate) {
  for (const Form& form : forms()) {
    const EncodedBytes whole = encoded(form);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_THROW(decoded(form, std::span(whole).first(size)), LinkError)
          << form.name << ", " << size;
    EncodedBytes longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_THROW(decoded(form, longer), LinkError) << form.name;
  }
}

TEST(Compressed, WithAnyByteChangedIsRefusedOrReadWithinItsArray) {
  for (const Form& form : forms()) {
    int refused = 0;
    for (std::size_t i = 0; i < encoded(form).size(); ++i) {
      EncodedBytes changed = encoded(form);
      changed[i] ^= std::byte{0x80};
      try {
        EXPECT_EQ(decoded(form, changed).size(), kElements);
      } catch (const LinkError&) {
        ++refused;
      }
    }
    const bool has_indices =
        std::string(form.name) == "sparse" || std::string(form.name) == "steps";
    EXPECT_GE(refused, has_indices ? 1 : 0) << form.name;
  }
}

TEST(Largest, TakesTheFirstOfEqualOnesAndNanBeforeAll) {
  const std::vector<float> values = {1, -3, 2, 3, -1, 3};
  EXPECT_THAT(largest(values, 0), ElementsAre());
  EXPECT_THAT(largest(values, 2), ElementsAre(1, 3));
  EXPECT_THAT(largest(values, 4), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(largest(values, 5), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(largest(values, 9), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(largest(std::vector<float>{5, kNan, 1}, 1), ElementsAre(1));
}

TEST(Steps, AreThoseThatHaveReachedTheThreshold) {
  const std::vector<float> values = {0.5F, -0.49F, -7, 0.49F};
  EncodedBytes bytes;
  encode_steps(values, 0.5F, bytes);
  std::vector<float> read(4);
  EncodedReader in(bytes);
  decode_steps(in, 0.5F, read);
  EXPECT_THAT(read, ElementsAre(0.5F, 0, -0.5F, 0));
}

// The number of zeros and a bit per element for them, if there are any; 2
// numbers, and a word per 32 elements begun.
TEST(Halves, BecomeTwoMeansAndABitPerElement) {
  const std::vector<float> values = {1, 3, -2, 0, 5, 5, 5, 5};
  EncodedBytes bytes;
  encode_halves(values, 4, bytes);
  EXPECT_EQ(bytes.size(), 4 + 4 + 2 * (8 + 4));
  std::vector<float> read(8);
  EncodedReader in(bytes);
  decode_halves(in, 4, read);
  EXPECT_THAT(read, ElementsAre(2, 2, -2, 0, 5, 5, 5, 5));
  bytes.clear();
  encode_halves(some_numbers(), kElements, bytes);
  EXPECT_EQ(bytes.size(), 4 + 8 + 4 * ((kElements + 31) / 32));
}

std::vector<float> through_signs(const std::vector<float>& values,
                                 bool is_scaled, std::size_t* size = nullptr) {
  EncodedBytes bytes;
  encode_signs(values, is_scaled, bytes);
  if (size != nullptr) *size = bytes.size();
  std::vector<float> read(values.size(), kNan);
  EncodedReader in(bytes);
  decode_signs(in, is_scaled, read);
  in.finish();
  return read;
}

TEST(Signs, SignsOfZeroAreZeroAlsoOfMinusZero) {
  EXPECT_THAT(through_signs({2, 0, -0.0F, -3}, false),
              ElementsAre(1, 0, 0, -1));
  // The mean magnitude is that of all four.
  EXPECT_THAT(through_signs({2, 0, -0.0F, -6}, true), ElementsAre(2, 0, 0, -2));
  EXPECT_THAT(through_signs({0, 0}, true), ElementsAre(0, 0));
  EXPECT_THAT(through_signs({}, false), ElementsAre());
}

TEST(Signs, SignsOfTheSmallestNumbersAreNotZero) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_THAT(through_signs({least, -least}, false), ElementsAre(1, -1));
}

TEST(Signs, TakeABitForEachElementAndAnotherOneOnlyWhereThereAreZeros) {
  std::size_t size = 0;
  std::vector<float> values(320, -1.5F);
  through_signs(values, false, &size);
  EXPECT_EQ(size, 4 + 320 / 8);
  std::fill_n(values.begin(), 64, 0.0F);
  through_signs(values, false, &size);
  EXPECT_EQ(size, 4 + 320 / 8 + (320 - 64) / 8);
}

TEST(Signs, WhoseZerosAreMarkedInOtherNumbersAreRefused) {
  EncodedBytes bytes;
  encode_signs(std::vector<float>{1, 0, 2, 0}, false, bytes);
  std::vector<float> read(4);
  for (const unsigned char count : {0, 1, 3, 4, 5}) {
    bytes[0] = std::byte{count};
    EncodedReader in(bytes);
    EXPECT_THROW(
        {
          decode_signs(in, false, read);
          in.finish();
        },
        LinkError)
        << int{count};
  }
}

TEST(Halves, LeaveAnErrorWhoseSumIsZero) {
  const std::vector<float> values = some_numbers();
  const std::vector<float> read = decoded(forms()[2], encoded(forms()[2]));
  for (std::size_t begin = 0; begin < kElements; begin += kRow) {
    double error = 0;
    for (std::size_t i = begin; i < begin + kRow; ++i)
      error += static_cast<double>(values[i]) - static_cast<double>(read[i]);
    EXPECT_NEAR(error, 0, 1e-5);
  }
}

// A contraction by 1 - |p|_1^2 / (d |p|_2^2), exactly (parallel A22).
TEST(Signs, WithTheMeanMagnitudeContract) {
  const std::vector<float> values = some_numbers();
  const std::vector<float> read = decoded(forms()[3], encoded(forms()[3]));
  double sum = 0;
  double squares = 0;
  double error = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += std::fabs(value);
    squares += value * value;
    error += std::pow(value - static_cast<double>(read[i]), 2);
  }
  const double contraction =
      1 - sum * sum / (static_cast<double>(kElements) * squares);
  EXPECT_NEAR(error / squares, contraction, 1e-5);
}

std::vector<float> in_levels(const std::vector<float>& values,
                             const Levels& levels, std::uint64_t key) {
  EncodedBytes bytes;
  encode_levels(values, levels, key, bytes);
  std::vector<float> read(values.size());
  EncodedReader in(bytes);
  decode_levels(in, levels, read);
  in.finish();
  return read;
}

TEST(Levels, HaveTheGradientForTheirMean) {
  const Levels levels{.levels = 3, .bucket = 8};
  const std::vector<float> values = {0.1F,   -0.4F, 0.9F, 0,
                                     -0.02F, 0.3F,  0.3F, -1};
  constexpr int kTimes = 20000;
  std::vector<double> means(values.size());
  double error = 0;
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  for (int i = 0; i < kTimes; ++i) {
    const auto read = in_levels(values, levels, 1000 + std::uint64_t(i));
    for (std::size_t j = 0; j < values.size(); ++j) {
      means[j] += static_cast<double>(read[j]) / kTimes;
      error += std::pow(static_cast<double>(read[j] - values[j]), 2) / kTimes;
    }
  }
  const double norm = std::sqrt(squares);
  for (std::size_t j = 0; j < values.size(); ++j)
    EXPECT_NEAR(means[j], values[j], 5 * norm / 3 / 2 / std::sqrt(kTimes)) << j;
  // min(d / s^2, sqrt(d) / s) of the squared norm.
  EXPECT_LT(error, std::min(8.0 / 9, std::sqrt(8.0) / 3) * squares);
  EXPECT_GT(error, 0);
}

TEST(Levels, DependOnTheirKeyAlone) {
  const std::vector<float> values = some_numbers();
  EXPECT_EQ(in_levels(values, kLevels, 1), in_levels(values, kLevels, 1));
  EXPECT_NE(in_levels(values, kLevels, 1), in_levels(values, kLevels, 2));
}

TEST(Levels, ManyLevelsLoseLittle) {
  const std::vector<float> values = some_numbers();
  const auto read =
      in_levels(values, {.levels = 32767, .bucket = kElements}, 1);
  for (std::size_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(read[i], values[i], 1e-3);
}

TEST(Levels, LevelsOfABucketWithAnInfinityAreNaN) {
  std::vector<float> values(10, 1);
  values[3] = std::numeric_limits<float>::infinity();
  const auto read = in_levels(values, {.levels = 3, .bucket = 5}, 1);
  EXPECT_TRUE(std::isnan(read[0]));
  EXPECT_FALSE(std::isnan(read[9]));
  EXPECT_THAT(in_levels({0, 0}, kLevels, 1), ElementsAre(0, 0));
}

}  // namespace sluice::compressed_test
