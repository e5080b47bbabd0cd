#include "experiments/data/files/orientation.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/data/orientation_test_files.h"

namespace sluice::orientation_test {

using testing::ElementsAre;

/// Red of six pixels, [2, 3]: 10 20 30 / 40 50 60.
DecodedImage numbered() {
  DecodedImage image = {.height = 2, .width = 3};
  for (const int red : {10, 20, 30, 40, 50, 60})
    image.rgb.insert(image.rgb.end(), {static_cast<std::uint8_t>(red), 1, 2});
  return image;
}

std::vector<int> reds_of(const DecodedImage& image) {
  std::vector<int> reds;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    reds.push_back(image.rgb[i]);
  return reds;
}

// What ImageOps.exif_transpose() of Pillow 11.3 makes of these pixels.
TEST(Upright, IsWhatPillowMakesOfOrientationsWithoutAnExchangeOfSides) {
  EXPECT_THAT(reds_of(upright(numbered(), 1)),
              ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_THAT(reds_of(upright(numbered(), 2)),
              ElementsAre(30, 20, 10, 60, 50, 40));
  EXPECT_THAT(reds_of(upright(numbered(), 3)),
              ElementsAre(60, 50, 40, 30, 20, 10));
  EXPECT_THAT(reds_of(upright(numbered(), 4)),
              ElementsAre(40, 50, 60, 10, 20, 30));
  EXPECT_EQ(upright(numbered(), 4).height, 2);
}

TEST(Upright, IsWhatPillowMakesOfOrientationsThatExchangeTheSides) {
  EXPECT_THAT(reds_of(upright(numbered(), 5)),
              ElementsAre(10, 40, 20, 50, 30, 60));
  EXPECT_THAT(reds_of(upright(numbered(), 6)),
              ElementsAre(40, 10, 50, 20, 60, 30));
  EXPECT_THAT(reds_of(upright(numbered(), 7)),
              ElementsAre(60, 30, 50, 20, 40, 10));
  EXPECT_THAT(reds_of(upright(numbered(), 8)),
              ElementsAre(30, 60, 20, 50, 10, 40));
  EXPECT_EQ(upright(numbered(), 6).height, 3);
  EXPECT_EQ(upright(numbered(), 6).width, 2);
}

TEST(OrientationOf, ReadsTheExifBlockOfAPngInEitherOrderOfBytes) {
  EXPECT_EQ(orientation_of(with_orientation(patterned_png(2, 3), 6)), 6);
  EXPECT_EQ(orientation_of(
                with_chunk(patterned_png(2, 3), "eXIf", little_endian_exif(8))),
            8);
  EXPECT_EQ(orientation_of(patterned_png(2, 3)), 1);
}

TEST(OrientationOf, ReadsTheExifSegmentOfAJpegBehindOthers) {
  EXPECT_EQ(orientation_of(jpeg_with(exif_segment(5))), 5);
  Bytes jpeg = jpeg_with(exif_segment(3));
  const Bytes comment = {0xff, 0xfe, 0, 4, 'h', 'i', 0xff};
  jpeg.insert(jpeg.begin() + 2, comment.begin(), comment.end());
  EXPECT_EQ(orientation_of(jpeg), 3) << "with a byte that fills up";
}

TEST(OrientationOf, ReadsXmpWhereThereIsNoExif) {
  const std::string element = "<tiff:Orientation>6</tiff:Orientation>";
  const std::string attribute = "<rdf tiff:Orientation=\"8\"/>";
  EXPECT_EQ(orientation_of(with_xmp(patterned_png(2, 3), element)), 6);
  EXPECT_EQ(orientation_of(with_xmp(patterned_png(2, 3), attribute)), 8);
  EXPECT_EQ(orientation_of(
                with_xmp(with_orientation(patterned_png(2, 3), 3), element)),
            3)
      << "Exif goes first";
}

TEST(OrientationOf, IsUprightForATagThatIsNoOrientation) {
  EXPECT_EQ(orientation_of(with_orientation(patterned_png(2, 3), 0)), 1);
  EXPECT_EQ(orientation_of(with_orientation(patterned_png(2, 3), 9)), 1);
  EXPECT_EQ(orientation_of(with_orientation(patterned_png(2, 3), 274)), 1);
}

TEST(OrientationOf, ReadsNoByteBehindTheEndOfADamagedBlock) {
  const Bytes whole = jpeg_with(exif_segment(6));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(),
                     whole.begin() + static_cast<std::ptrdiff_t>(size));
    const int orientation = orientation_of(part);
    EXPECT_TRUE(orientation == 1 || orientation == 6) << size;
  }
  Bytes far = big_endian_exif(6);
  far[4] = far[5] = far[6] = far[7] = 0xff;  // where the directory lies
  EXPECT_EQ(orientation_of(with_chunk(patterned_png(2, 3), "eXIf", far)), 1);
}

}  // namespace sluice::orientation_test
