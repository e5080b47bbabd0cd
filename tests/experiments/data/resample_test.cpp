// Expected bytes are Pillow 11.3's: resize(..., BILINEAR) of patterned(7, 10).
#include "experiments/data/files/resample.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/data/image_test_files.h"

namespace sluice::resample_test {

using testing::Each;
using testing::ElementsAreArray;

constexpr std::int64_t kHeight = 7;
constexpr std::int64_t kWidth = 10;

PlaneView plane_of(const Bytes& rgb, std::int64_t colour) {
  return {.first = rgb.data() + colour,
          .height = kHeight,
          .width = kWidth,
          .row_stride = 3 * kWidth,
          .pixel_stride = 3};
}

Bytes resized(const PlaneView& plane, std::int64_t height, std::int64_t width,
              const ImageBox& window) {
  Bytes bytes(static_cast<std::size_t>(window.height * window.width));
  resample(plane, height, width, window, bytes.data());
  return bytes;
}

Bytes resized(const PlaneView& plane, std::int64_t height, std::int64_t width) {
  return resized(plane, height, width, {.height = height, .width = width});
}

TEST(Resampling, ToFewerPixelsGivesPillowsBytes) {
  const Bytes rgb = patterned(7, 10);
  EXPECT_THAT(
      resized(plane_of(rgb, 0), 3, 4),
      ElementsAreArray({46, 129, 161, 61, 70, 153, 158, 81, 94, 177, 117, 97}));
  EXPECT_THAT(resized(plane_of(rgb, 2), 3, 4),
              ElementsAreArray({210, 182, 114, 126, 182, 104, 118, 100, 115,
                                114, 106, 123}));
}

TEST(Resampling, ToMorePixelsGivesPillowsBytes) {
  const Bytes rgb = patterned(7, 10);
  const Bytes all = resized(plane_of(rgb, 1), 8, 12);
  EXPECT_THAT(Bytes(all.begin(), all.begin() + 24),
              ElementsAreArray({17,  21,  25,  29,  33,  37,  42,  46,
                                50,  54,  58,  62,  91,  95,  99,  103,
                                107, 111, 116, 120, 124, 128, 132, 136}));
  EXPECT_THAT(
      Bytes(all.end() - 12, all.end()),
      ElementsAreArray({51, 55, 59, 63, 67, 71, 76, 80, 84, 88, 92, 96}));
}

TEST(Resampling, ResamplingOfAPartKnowsNothingOfThePixelsAroundIt) {
  const Bytes rgb = patterned(7, 10);
  const ImageBox box = {.top = 1, .left = 2, .height = 5, .width = 7};
  EXPECT_THAT(resized(plane_of(rgb, 1).part(box), 4, 4),
              ElementsAreArray({144, 151, 161, 168, 143, 150, 160, 167, 100,
                                107, 117, 124, 206, 213, 223, 130}));
}

TEST(Resampling, ResamplingOfAWindowGivesThatPartOfTheWhole) {
  const Bytes rgb = patterned(7, 10);
  EXPECT_THAT(resized(plane_of(rgb, 0), 5, 7,
                      {.top = 0, .left = 2, .height = 4, .width = 4}),
              ElementsAreArray({117, 171, 182, 30, 130, 184, 195, 43, 146, 200,
                                182, 57, 162, 216, 70, 66}));
}

TEST(Resampling, ToTheSameSizeChangesNothing) {
  const Bytes rgb = patterned(7, 10);
  const Bytes same = resized(plane_of(rgb, 2), kHeight, kWidth);
  for (std::size_t i = 0; i < same.size(); ++i)
    ASSERT_EQ(same[i], rgb[3 * i + 2]) << "pixel " << i;
}

TEST(Resampling, ResamplingOfOneColourKeepsIt) {
  const Bytes white(3 * kHeight * kWidth, 255);
  EXPECT_THAT(resized(plane_of(white, 0), 23, 3), Each(255));
}

}  // namespace sluice::resample_test
