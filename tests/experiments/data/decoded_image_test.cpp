#include "experiments/data/files/decoded_image.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/data/image_test_files.h"

namespace sluice::decoded_image_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Bytes of_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(
        std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

// Eight by eight pixels of one colour, by Pillow 11.3.
const char* const kTables =
    "ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a"
    "0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514";

/// (200, 30, 60), quality 90.
Bytes colour_jpeg() {
  return of_hex(std::string("ffd8ffe000104a46494600010100000100010000") +
                kTables +
                "ffdb00430103040405040509050509140d0b0d141414141414141414141414"
                "14141414141"
                "41414141414141414141414141414141414141414141414141414141414141"
                "414ffc00011"
                "080008000803012200021101031101ffc40015000101000000000000000000"
                "00000000000"
                "007ffc40014100100000000000000000000000000000000ffc400150101010"
                "00000000000"
                "00000000000000000608ffc400141101000000000000000000000000000000"
                "00ffda000c0"
                "3010002110311003f00850034b75fffd9");
}

/// 77.
Bytes grey_jpeg() {
  return of_hex(
      std::string("ffd8ffe000104a46494600010100000100010000") + kTables +
      "ffc0000b080008000801011100ffc400140001000000000000000000000000000000"
      "08ffc40014100100000000000000000000000000000000ffda0008010100003f003bbff"
      "fd9");
}

/// What Pillow turns into (216, 49, 137).
Bytes cmyk_jpeg() {
  return of_hex(
      "ffd8ffee000e41646f626500640000000000ffdb00430002010101010102010101020202"
      "02020403020202020504040304060506060605060606070908060709070606080b08090a"
      "0a0a0a0a06080b0c0b0a0c090a0a0affc000140800080008044311004d11005911004b11"
      "00ffc4001500010100000000000000000000000000000907ffc400141001000000000000"
      "00000000000000000000ffda000e0443004d0059004b00003f007506dad8611fffd9");
}

Bytes pixels_of(const Bytes& file) {
  return decode_image(file, "a file").rgb;
}

std::string refusal(const Bytes& file) {
  return error_of([&] { decode_image(file, "a file"); });
}

/// Expects the colour in all pixels.
void expect_near(const Bytes& rgb, std::array<int, 3> colour, int tolerance) {
  for (std::size_t i = 0; i < rgb.size(); ++i)
    ASSERT_NEAR(rgb[i], colour.at(i % 3), tolerance) << "byte " << i;
}

TEST(APng, PngOfColoursIsDecodedExactly) {
  const DecodedImage image = decode_image(patterned_png(5, 3), "a file");
  EXPECT_EQ(image.height, 5);
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.rgb, patterned(5, 3));
}

TEST(APng, PngOfGreyHasThreeEqualColours) {
  EXPECT_THAT(pixels_of(png_of(1, 2, PngKind::grey, {7, 200})),
              ElementsAre(7, 7, 7, 200, 200, 200));
}

TEST(APng, PngOfOneBitAPixelIsBlackAndWhite) {
  EXPECT_THAT(pixels_of(png_of(1, 3, PngKind::grey, {0b10100000}, 1)),
              ElementsAre(255, 255, 255, 0, 0, 0, 255, 255, 255));
}

TEST(APng, WithAPaletteHasItsColours) {
  EXPECT_THAT(pixels_of(png_of(1, 2, PngKind::palette, {1, 0}, 8,
                               {1, 2, 3, 40, 50, 60})),
              ElementsAre(40, 50, 60, 1, 2, 3));
}

TEST(APng, PngOfSixteenBitsIsRounded) {
  // 0x1234 / 257 = 18.1..., 0x8150 / 257 = 128.8...
  EXPECT_THAT(
      pixels_of(png_of(1, 2, PngKind::grey, {0x12, 0x34, 0x81, 0x50}, 16)),
      ElementsAre(18, 18, 18, 129, 129, 129));
}

TEST(APng, LetsWhiteShineThrough) {
  // 100 * 128 / 255 + 255 * 127 / 255 = 177.2
  EXPECT_THAT(
      pixels_of(png_of(1, 3, PngKind::rgba,
                       {10, 20, 30, 255, 100, 0, 255, 128, 9, 9, 9, 0})),
      ElementsAre(10, 20, 30, 177, 127, 255, 255, 255, 255));
}

TEST(APng, ThatIsCutOffIsRefusedInOneLine) {
  Bytes png = patterned_png(16, 16);
  png.resize(png.size() / 2);
  EXPECT_THAT(refusal(png), AllOf(HasSubstr("a file: is a damaged PNG"),
                                  Not(HasSubstr("\n"))));
}

TEST(APng, WithAChangedHeaderIsRefused) {
  Bytes png = patterned_png(16, 16);
  png[19] ^= 1;  // of the width
  EXPECT_THAT(refusal(png), HasSubstr("a file: is a damaged PNG"));
}

TEST(APng, ThatSaysItIsHugeIsRefusedBeforeMemoryIsTaken) {
  // The rows are missing, but the size is refused before they are read.
  const Bytes png = png_of(100'000, 100'000, PngKind::rgb, {});
  EXPECT_THAT(refusal(png), HasSubstr("100000 x 100000 pixels"));
}

TEST(AJpeg, JpegOfOneColourHasIt) {
  const DecodedImage image = decode_image(colour_jpeg(), "a file");
  EXPECT_EQ(image.height, 8);
  EXPECT_EQ(image.width, 8);
  ASSERT_EQ(image.rgb.size(), 192U);
  expect_near(image.rgb, {200, 30, 60}, 2);
}

TEST(AJpeg, JpegOfGreyHasThreeEqualColours) {
  const Bytes rgb = pixels_of(grey_jpeg());
  ASSERT_EQ(rgb.size(), 192U);
  expect_near(rgb, {77, 77, 77}, 1);
}

TEST(AJpeg, InTheColoursOfAPrinterIsConverted) {
  const Bytes rgb = pixels_of(cmyk_jpeg());
  ASSERT_EQ(rgb.size(), 192U);
  expect_near(rgb, {216, 49, 137}, 3);
}

TEST(AJpeg, ThatIsCutOffIsRefusedInOneLine) {
  Bytes jpeg = colour_jpeg();
  jpeg.resize(jpeg.size() - 8);
  EXPECT_THAT(refusal(jpeg), AllOf(HasSubstr("a file: is a damaged JPEG"),
                                   Not(HasSubstr("\n"))));
  jpeg.resize(40);
  EXPECT_THAT(refusal(jpeg), HasSubstr("a file: is a damaged JPEG"));
}

TEST(AnImage, ImageOfAnotherFormatIsRefused) {
  EXPECT_THAT(refusal({'G', 'I', 'F', '8', '9', 'a'}),
              HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(refusal({}), HasSubstr("neither a PNG nor a JPEG"));
}

}  // namespace sluice::decoded_image_test
