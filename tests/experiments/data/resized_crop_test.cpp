#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/data/change/augmentation.h"
#include "experiments/data/sets/images.h"
#include "lib/base/random.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::resized_crop_test {

TEST(ResizedCrop, LiesInTheImageAndHasAnAllowedAreaAndRatio) {
  const Augmentation augmentation = {.resized_crop = 0.2};
  std::set<std::int64_t> tops;
  double smallest = 1;
  double largest = 0;
  for (std::int64_t index = 0; index < 500; ++index) {
    const ImageBox box =
        draw_resized_crop(augmentation, {.seed = 9}, index, 60, 80);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, 60);
    ASSERT_LE(box.left + box.width, 80);
    const auto height = static_cast<double>(box.height);
    const auto width = static_cast<double>(box.width);
    // Half a pixel is rounded away on either side.
    ASSERT_GE((height + 0.5) * (width + 0.5) / 4800, 0.2);
    ASSERT_GE((width + 0.5) / (height - 0.5), 3.0 / 4);
    ASSERT_LE((width - 0.5) / (height + 0.5), 4.0 / 3);
    tops.insert(box.top);
    smallest = std::min(smallest, height * width / 4800);
    largest = std::max(largest, height * width / 4800);
  }
  EXPECT_GT(tops.size(), 20U);
  EXPECT_LT(smallest, 0.25);
  EXPECT_GT(largest, 0.8);
}

TEST(ResizedCrop, ResizedCropOfAnImageThatNoPartFitsIsAroundItsCentre) {
  // All of it is asked for, and its sides have a ratio of 1 : 10.
  const Augmentation whole = {.resized_crop = 1};
  EXPECT_EQ(draw_resized_crop(whole, {.seed = 9}, 0, 100, 10),
            (ImageBox{.top = 43, .left = 0, .height = 13, .width = 10}));
  EXPECT_EQ(draw_resized_crop(whole, {.seed = 9}, 0, 9, 100),
            (ImageBox{.top = 0, .left = 44, .height = 9, .width = 12}));
}

TEST(ResizedCrop, FollowsFromSeedEpochAndSample) {
  const Augmentation augmentation = {.resized_crop = 0.1};
  const auto box = [&](EpochKey key, std::int64_t index) {
    return draw_resized_crop(augmentation, key, index, 300, 400);
  };
  const ImageBox first = box({.seed = 1, .epoch = 2}, 3);
  EXPECT_EQ(box({.seed = 1, .epoch = 2}, 3), first);
  EXPECT_FALSE(box({.seed = 2, .epoch = 2}, 3) == first);
  EXPECT_FALSE(box({.seed = 1, .epoch = 3}, 3) == first);
  EXPECT_FALSE(box({.seed = 1, .epoch = 2}, 4) == first);
}

TEST(ResizedCrop, ResizedCropOfImagesInMemoryIsTheDrawnPartOfEachChannel) {
  constexpr std::int64_t kSide = 12;
  const ImageFormat format = {.channels = 3,
                              .height = kSide,
                              .width = kSide,
                              .mean = {0, 0, 0},
                              .std = {1, 1, 1}};
  Images images = {.pixels = Bytes(3 * kSide * kSide), .labels = {4}};
  KeyedRandom random(5);
  for (std::uint8_t& pixel : images.pixels)
    pixel = static_cast<std::uint8_t>(random.below(256));
  const Augmentation augmentation = {.resized_crop = 0.3};
  const EpochKey key = {.seed = 6, .epoch = 1};
  const std::int64_t index = 0;
  const at::Tensor seen = image_samples(format, augmentation, images)
                              ->batch({&index, 1}, key)
                              .inputs;
  const ImageBox box = draw_resized_crop(augmentation, key, 0, kSide, kSide);
  Bytes expected(kSide * kSide);
  for (std::int64_t c = 0; c < 3; ++c) {
    const PlaneView plane = {.first = images.pixels.data() + c * kSide * kSide,
                             .height = kSide,
                             .width = kSide,
                             .row_stride = kSide};
    resample(plane.part(box), kSide, kSide, {.height = kSide, .width = kSide},
             expected.data());
    for (std::int64_t i = 0; i < kSide * kSide; ++i)
      ASSERT_NEAR(seen[0][c].flatten()[i].item<double>() * 255,
                  expected[static_cast<std::size_t>(i)], 1e-3)
          << "channel " << c << ", pixel " << i;
  }
}

}  // namespace sluice::resized_crop_test
