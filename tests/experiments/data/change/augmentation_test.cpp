// Augmented images against what the same changes give pixel by pixel.
#include "experiments/data/change/augmentation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/sets/images.h"
#include "lib/base/random.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_augmentation_test {

using Indices = std::vector<std::int64_t>;

constexpr std::int64_t kHeight = 5;
constexpr std::int64_t kWidth = 7;
constexpr std::int64_t kCount = 12;

ImageFormat format_of(std::int64_t channels) {
  ImageFormat format = {.channels = channels,
                        .height = kHeight,
                        .width = kWidth,
                        .mean = {0.5, 0.4, 0.3},
                        .std = {0.25, 0.2, 0.3}};
  format.mean.resize(static_cast<std::size_t>(channels));
  format.std.resize(static_cast<std::size_t>(channels));
  return format;
}

Images random_images(std::int64_t channels) {
  KeyedRandom random(7);
  Images images;
  images.labels.resize(kCount);
  images.pixels.resize(
      static_cast<std::size_t>(kCount * channels * kHeight * kWidth));
  for (std::uint8_t& pixel : images.pixels)
    pixel = static_cast<std::uint8_t>(random.below(256));
  return images;
}

/// One image as numbers in 0..1: [C][H][W], black outside.
struct Picture {
  std::vector<std::vector<std::vector<double>>> values = {};

  double at(std::int64_t c, std::int64_t y, std::int64_t x) const {
    if (y < 0 || y >= kHeight || x < 0 || x >= kWidth) return 0;
    return values[static_cast<std::size_t>(c)][static_cast<std::size_t>(y)]
                 [static_cast<std::size_t>(x)];
  }
  double& at(std::int64_t c, std::int64_t y, std::int64_t x) {
    return values[static_cast<std::size_t>(c)][static_cast<std::size_t>(y)]
                 [static_cast<std::size_t>(x)];
  }
};

Picture picture(const Images& images, std::int64_t channels,
                std::int64_t index) {
  Picture result;
  auto pixel = images.pixels.begin() + index * channels * kHeight * kWidth;
  result.values.assign(static_cast<std::size_t>(channels), {});
  for (auto& plane : result.values) {
    plane.assign(kHeight, std::vector<double>(kWidth));
    for (auto& row : plane)
      for (double& value : row) value = *pixel++ / 255.0;
  }
  return result;
}

double clamped(double value) {
  return std::clamp(value, 0.0, 1.0);
}

double grey(const Picture& image, std::int64_t y, std::int64_t x) {
  if (image.values.size() == 1) return image.at(0, y, x);
  return 0.299 * image.at(0, y, x) + 0.587 * image.at(1, y, x) +
         0.114 * image.at(2, y, x);
}

template <class Change>
Picture mapped(const Picture& image, Change change) {
  Picture result = image;
  for (std::int64_t c = 0; c < std::ssize(image.values); ++c)
    for (std::int64_t y = 0; y < kHeight; ++y)
      for (std::int64_t x = 0; x < kWidth; ++x)
        result.at(c, y, x) = change(c, y, x);
  return result;
}

Picture moved(const Picture& image, const ImageChange& change) {
  return mapped(image, [&](auto c, auto y, auto x) {
    const std::int64_t column = x + change.right;
    return image.at(c, y + change.down,
                    change.mirrored ? kWidth - 1 - column : column);
  });
}

Picture jittered(const Picture& image, const ImageChange& change) {
  const Picture bright = mapped(image, [&](auto c, auto y, auto x) {
    return clamped(change.brightness * image.at(c, y, x));
  });
  double mean = 0;
  for (std::int64_t y = 0; y < kHeight; ++y)
    for (std::int64_t x = 0; x < kWidth; ++x)
      mean += grey(bright, y, x) / (kHeight * kWidth);
  const Picture contrasted = mapped(bright, [&](auto c, auto y, auto x) {
    return clamped(mean + change.contrast * (bright.at(c, y, x) - mean));
  });
  if (image.values.size() == 1) return contrasted;
  return mapped(contrasted, [&](auto c, auto y, auto x) {
    const double level = grey(contrasted, y, x);
    return clamped(level +
                   change.saturation * (contrasted.at(c, y, x) - level));
  });
}

Picture normalised(const Picture& image, const ImageFormat& format) {
  return mapped(image, [&](auto c, auto y, auto x) {
    const auto channel = static_cast<std::size_t>(c);
    return (image.at(c, y, x) - format.mean[channel]) / format.std[channel];
  });
}

Picture cut_out(const Picture& image, const ImageChange& change) {
  return mapped(image, [&](auto c, auto y, auto x) {
    const bool inside = y >= change.hole_top && y < change.hole_bottom &&
                        x >= change.hole_left && x < change.hole_right;
    return inside ? 0.0 : image.at(c, y, x);
  });
}

/// The largest difference between what Sluice makes of images and what they
/// should be.
double error_of(const Augmentation& augmentation, std::int64_t channels) {
  const EpochKey key = {.seed = 3, .epoch = 4};
  const Images images = random_images(channels);
  const auto samples = image_samples(format_of(channels), augmentation, images);
  double largest = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const ImageChange change =
        draw_change(augmentation, key, i, kHeight, kWidth);
    Picture expected = moved(picture(images, channels, i), change);
    if (augmentation.jitter > 0) expected = jittered(expected, change);
    expected = cut_out(normalised(expected, format_of(channels)), change);
    const at::Tensor inputs = samples->batch(Indices{i}, key).inputs[0];
    const auto found = inputs.accessor<float, 3>();
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < kHeight; ++y)
        for (std::int64_t x = 0; x < kWidth; ++x)
          largest =
              std::max(largest, std::abs(static_cast<double>(found[c][y][x]) -
                                         expected.at(c, y, x)));
  }
  return largest;
}

// Rounding of single precision, for values up to 4 after a few operations.
constexpr double kRounding = 1e-5;

TEST(Augmentation, CropMovesTheImageOverBlack) {
  EXPECT_LT(error_of({.crop = 2}, 3), kRounding);
}

TEST(Augmentation, CropMayMoveTheImageOutOfSight) {
  EXPECT_LT(error_of({.crop = 20}, 1), kRounding);
}

TEST(Augmentation, FlipMirrorsLeftAndRight) {
  EXPECT_LT(error_of({.flip = true}, 3), kRounding);
}

TEST(Augmentation, JitterChangesBrightnessContrastAndSaturation) {
  EXPECT_LT(error_of({.jitter = 0.6}, 3), kRounding);
}

TEST(Augmentation, JitterOfGreyImagesHasNoSaturation) {
  EXPECT_LT(error_of({.jitter = 0.6}, 1), kRounding);
}

TEST(Augmentation, CutoutSetsASquareToTheMean) {
  EXPECT_LT(error_of({.cutout = 3}, 3), kRounding);
}

TEST(Augmentation, AllKindsTogether) {
  EXPECT_LT(error_of({.crop = 1, .flip = true, .jitter = 0.3, .cutout = 2}, 3),
            kRounding);
}

/// What `value_of` gives for many samples, and how often.
template <class Value>
std::map<std::int64_t, int> drawn(const Augmentation& augmentation,
                                  Value value_of) {
  std::map<std::int64_t, int> counts;
  for (std::int64_t i = 0; i < 4000; ++i)
    ++counts[value_of(draw_change(augmentation, {1, 0}, i, kHeight, kWidth))];
  return counts;
}

TEST(Augmentation, CropMovesEquallyOftenByEachDistance) {
  const auto counts = drawn({.crop = 2}, [](auto c) { return c.down; });
  ASSERT_EQ(counts.size(), 5U);
  EXPECT_EQ(counts.begin()->first, -2);
  // Five standard deviations of a binomial with n = 4000, p = 0.2.
  for (const auto& [distance, count] : counts) EXPECT_NEAR(count, 800, 127);
}

TEST(Augmentation, CropMovesBothWaysIndependently) {
  EXPECT_EQ(
      drawn({.crop = 2}, [](auto c) { return c.down * 10 + c.right; }).size(),
      25U);
}

TEST(Augmentation, FlipMirrorsHalfOfTheImages) {
  const auto counts = drawn({.flip = true}, [](auto c) { return c.mirrored; });
  EXPECT_NEAR(counts.at(1), 2000, 159);
}

TEST(Augmentation, JitterDrawsEachFactorAroundOne) {
  const Augmentation augmentation = {.jitter = 0.25};
  const auto tenths = [](float factor) {
    return static_cast<std::int64_t>(std::floor(factor * 10));
  };
  for (const auto factor : {&ImageChange::brightness, &ImageChange::contrast,
                            &ImageChange::saturation}) {
    const auto counts =
        drawn(augmentation, [&](auto c) { return tenths(c.*factor); });
    EXPECT_EQ(counts.begin()->first, 7);
    EXPECT_EQ(counts.rbegin()->first, 12);
  }
}

TEST(Augmentation, CutoutIsCentredAnywhereAndHangsOverTheRim) {
  const auto tops = drawn(
      {.cutout = 3}, [](auto c) { return c.hole_top * 100 + c.hole_bottom; });
  EXPECT_EQ(tops.size(), 5U);
  EXPECT_TRUE(tops.contains(2));    // rows 0 and 1: around row 0
  EXPECT_TRUE(tops.contains(305));  // rows 3 and 4: around row 4
}

TEST(Augmentation, DependsOnSeedEpochAndSample) {
  const Augmentation all = {.crop = 1000};
  const auto down = [&](EpochKey key, std::int64_t index) {
    return draw_change(all, key, index, kHeight, kWidth).down;
  };
  EXPECT_EQ(down({1, 2}, 3), down({1, 2}, 3));
  EXPECT_NE(down({1, 2}, 3), down({9, 2}, 3));
  EXPECT_NE(down({1, 2}, 3), down({1, 9}, 3));
  EXPECT_NE(down({1, 2}, 3), down({1, 2}, 9));
}

TEST(Augmentation, AKindIsTheSameWhateverElseIsOn) {
  const ImageChange alone =
      draw_change({.cutout = 2}, {1, 2}, 3, kHeight, kWidth);
  const ImageChange among =
      draw_change({.crop = 4, .flip = true, .jitter = 1, .cutout = 2}, {1, 2},
                  3, kHeight, kWidth);
  EXPECT_EQ(alone.hole_top, among.hole_top);
  EXPECT_EQ(alone.hole_left, among.hole_left);
}

TEST(Augmentation, ASampleIsTheSameInAnyBatch) {
  const auto samples = image_samples(
      format_of(3), {.crop = 2, .flip = true, .jitter = 0.5, .cutout = 2},
      random_images(3));
  const Batch alone = samples->batch(Indices{5}, {1, 2});
  const Batch among = samples->batch(Indices{2, 9, 5}, {1, 2});
  EXPECT_TRUE(at::equal(alone.inputs[0], among.inputs[2]));
}

TEST(Augmentation, ThatIsOffLeavesTheBitsOfANormalisedImage) {
  const Images images = random_images(3);
  const auto samples = image_samples(format_of(3), {}, images);
  const at::Tensor inputs = samples->batch(Indices{4}, {1, 2}).inputs[0];
  const Picture expected = normalised(picture(images, 3, 4), format_of(3));
  for (std::int64_t c = 0; c < 3; ++c)
    EXPECT_EQ(inputs[c][2][6].item<float>(),
              static_cast<float>(expected.at(c, 2, 6)));
}

TEST(Augmentation, IsForTrainingOnly) {
  const Images images = random_images(1);
  const auto load = [&] { return images; };
  const DataSet data =
      image_data_set(format_of(1), {.crop = 3}, {kCount, load}, {kCount, load});
  const at::Tensor plain = image_samples(format_of(1), {}, images)
                               ->batch(Indices{0, 1, 2}, {})
                               .inputs;
  const Indices three = {0, 1, 2};
  EXPECT_TRUE(at::equal(data.test.samples()->batch(three, {}).inputs, plain));
  EXPECT_FALSE(at::equal(data.train.samples()->batch(three, {}).inputs, plain));
}

TEST(Augmentation, IsLeftOutWhereAnEvaluationReadsTrainingImages) {
  const Images images = random_images(1);
  const auto plain = image_samples(format_of(1), {}, images);
  const auto changed = image_samples(format_of(1), {.crop = 3}, images);
  const EpochKey key = {.seed = 1, .epoch = 2, .augmented = false};
  EXPECT_TRUE(at::equal(changed->batch(Indices{0, 1, 2}, key).inputs,
                        plain->batch(Indices{0, 1, 2}, {}).inputs));
}

TEST(Augmentation, IsReadFromTheTableAugment) {
  ConfigNode options;
  options.set_path("augment.crop", {.value = std::int64_t{4}});
  options.set_path("augment.flip", {.value = true});
  options.set_path("augment.jitter", {.value = 0.5});
  options.set_path("augment.cutout", {.value = std::int64_t{16}});
  Fields fields(&options, "data");
  const Augmentation augmentation = read_augmentation(fields);
  EXPECT_EQ(augmentation.crop, 4);
  EXPECT_TRUE(augmentation.flip);
  EXPECT_EQ(augmentation.jitter, 0.5);
  EXPECT_EQ(augmentation.cutout, 16);
}

}  // namespace sluice::data_augmentation_test
