#include "experiments/data/drawn/drawn_digits.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/data/drawn/digit_glyphs.h"
#include "lib/base/config.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_drawn_digits_test {

using Image = std::array<std::uint8_t, kDrawnDigitBytes>;

Image drawn(const DrawnDigitsOptions& options, std::string_view split,
            std::int64_t index) {
  Image image = {};
  draw_digit(options, split, index, image);
  return image;
}

/// FNV-1a over images and labels, one after the other.
std::uint64_t hash_of(const Images& images) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t byte) {
    hash = (hash ^ byte) * 0x100000001b3;
  };
  auto pixel = images.pixels.begin();
  for (const std::uint8_t label : images.labels) {
    for (std::size_t i = 0; i < kDrawnDigitBytes; ++i) add(*pixel++);
    add(label);
  }
  return hash;
}

TEST(DrawnDigits, AreTheSameOnEveryMachine) {
  EXPECT_EQ(hash_of(draw_digits({}, "train", 100)), 7614692156374798315ULL);
  EXPECT_EQ(hash_of(draw_digits({}, "test", 50)), 11594271831772458295ULL);
}

TEST(DrawnDigits, AnImageDependsOnItsIndexNotOnTheSizeOfTheSet) {
  const Images few = draw_digits({}, "train", 5);
  Image image = {};
  std::copy_n(few.pixels.end() - kDrawnDigitBytes, kDrawnDigitBytes,
              image.begin());
  EXPECT_EQ(image, drawn({.train = 1000}, "train", 4));
}

TEST(DrawnDigits, TrainAndTestDiffer) {
  EXPECT_NE(drawn({}, "train", 0), drawn({}, "test", 0));
}

TEST(DrawnDigits, SeedsDiffer) {
  EXPECT_NE(drawn({.seed = 1}, "train", 0), drawn({.seed = 2}, "train", 0));
}

TEST(DrawnDigits, HaveAllClassesAboutEquallyOften) {
  std::array<int, 10> counts = {};
  for (const std::uint8_t label : draw_digits({}, "train", 2000).labels) {
    counts.at(label) += 1;
  }
  // Five standard deviations of a binomial with n = 2000, p = 0.1.
  for (const int count : counts) EXPECT_NEAR(count, 200, 67);
}

TEST(DrawnDigits, AtDifficultyZeroAreCleanAndAlike) {
  std::set<Image> images;
  std::size_t glyphs = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    images.insert(drawn({.difficulty = 0}, "train", i));
  }
  for (int digit = 0; digit < 10; ++digit) glyphs += glyphs_of(digit).size();
  EXPECT_EQ(images.size(), glyphs);
}

TEST(DrawnDigits, AreNormalisedByTheirOwnMean) {
  const Bytes pixels = draw_digits({}, "train", 1000).pixels;
  const double sum = std::accumulate(pixels.begin(), pixels.end(), 0.0);
  EXPECT_NEAR(sum / 255.0 / static_cast<double>(pixels.size()),
              drawn_digits_format().mean.at(0), 0.01);
}

TEST(DrawnDigits, ReadTheirSizesFromTheConfig) {
  ConfigNode table;
  table.set("train", {.value = std::int64_t{7}});
  table.set("test", {.value = std::int64_t{3}});
  Fields fields(&table, "data");
  const DataSet digits = configure_drawn_digits(fields)("");
  EXPECT_EQ(digits.train.samples()->size(), 7);
  EXPECT_EQ(digits.test.samples()->size(), 3);
}

TEST(DigitGlyphs, EveryGlyphBeginsByPuttingThePenDown) {
  for (int digit = 0; digit < 10; ++digit) {
    for (const Glyph glyph : glyphs_of(digit)) {
      EXPECT_EQ(glyph.front().pen, Pen::down) << "digit " << digit;
    }
  }
}

}  // namespace sluice::data_drawn_digits_test
