// The filters of the first layer, as a picture of a report.
#include "experiments/report/page/filters.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "experiments/data/files/decoded_image.h"
#include "experiments/data/files/encoded_image.h"
#include "experiments/report/sections/report.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::report::filters_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;
using Shape = std::vector<std::int64_t>;

/// Three filters [3, 1, 2] of which the second is ten times the first.
at::Tensor colours() {
  const at::Tensor first =
      at::tensor({1.0, -1.0, 0.5, 0.0, 0.0, -0.5}).view({3, 1, 2});
  return at::stack({first, 10 * first, at::zeros({3, 1, 2}, at::kDouble)});
}

TEST(FilterPicture, FilterPictureOfAConvolutionHasTheColoursOfItsWeights) {
  const auto picture = picture_of(colours(), {});
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->height, 1);
  EXPECT_EQ(picture->width, 8);
  EXPECT_EQ(picture->shown, 3);
  // 127.5 + 127.5 * 0.5 = 191.25, 127.5 - 63.75 = 63.75; 127.5 goes up.
  EXPECT_THAT(picture->rgba,
              ElementsAre(255, 191, 128, 255, 0, 128, 64, 255,  //
                          0, 0, 0, 0,                           // between
                          255, 191, 128, 255, 0, 128, 64, 255,  //
                          0, 0, 0, 0,                           //
                          128, 128, 128, 255, 128, 128, 128, 255));
}

TEST(FilterPicture, FilterPictureOfALinearLayerHasARowAsAnImage) {
  const at::Tensor rows = at::tensor({2.0F, 0.0F, -2.0F, 1.0F}).view({1, 4});
  const auto picture = picture_of(rows, Shape{1, 2, 2});
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->height, 2);
  EXPECT_THAT(picture->rgba,
              ElementsAre(255, 255, 255, 255, 128, 128, 128, 255,  //
                          0, 0, 0, 255, 191, 191, 191, 255));
  // The red values of all pixels come first, then the green ones.
  const auto coloured = picture_of(
      at::tensor({1.0, 0.0, 0.0, 0.0, 0.0, -1.0}).view({1, 6}), Shape{3, 1, 2});
  ASSERT_TRUE(coloured);
  EXPECT_THAT(coloured->rgba,
              ElementsAre(255, 128, 128, 255, 128, 128, 0, 255));
}

TEST(FilterPicture, IsOfWeightsThatSeeImagesAlone) {
  const Shape digits = {1, 2, 2};
  EXPECT_TRUE(picture_of(at::ones({3, 4}), digits));
  EXPECT_FALSE(picture_of(at::ones({3, 4}), {})) << "of what shape?";
  EXPECT_FALSE(picture_of(at::ones({3, 4}), Shape{4})) << "no image";
  EXPECT_FALSE(picture_of(at::ones({3, 5}), digits));
  EXPECT_FALSE(picture_of(at::ones({3, 2, 3, 3}), digits)) << "two channels";
  EXPECT_TRUE(picture_of(at::ones({3, 3, 3, 3}), {}));
  EXPECT_FALSE(picture_of(at::ones({3, 3, 1, 1}), {})) << "a pixel";
  EXPECT_FALSE(picture_of(at::ones({0, 3, 3, 3}), {}));
  EXPECT_FALSE(picture_of(at::ones({0, 4}), digits));
  EXPECT_FALSE(picture_of(at::ones({4}), digits));
}

TEST(FilterPicture, FilterPictureOfManyHasTheFirstInRows) {
  const auto picture = picture_of(at::ones({70, 1, 2, 3}), {});
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->filters, 70);
  EXPECT_EQ(picture->shown, 64);
  EXPECT_EQ(picture->width, 8 * 3 + 7);
  EXPECT_EQ(picture->height, 8 * 2 + 7);
}

TEST(FilterPicture, FilterPictureOfWhatIsNotFiniteIsGrey) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto picture =
      picture_of(at::tensor({nan, infinite, 2.0}).view({1, 1, 1, 3}), {});
  ASSERT_TRUE(picture);
  EXPECT_THAT(picture->rgba, ElementsAre(128, 128, 128, 255, 128, 128, 128, 255,
                                         255, 255, 255, 255));
}

TEST(EncodedPng, IsDecodedToItsPixels) {
  const std::vector<std::uint8_t> rgba = {1, 2, 3, 255, 250, 128, 0, 255,
                                          9, 9, 9, 0,   77,  0,   6, 255};
  const std::vector<std::uint8_t> png = encode_png(2, 2, rgba);
  const DecodedImage image = decode_image(png, "ours.png");
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 2);
  // What is clear is white there.
  EXPECT_THAT(image.rgb,
              ElementsAre(1, 2, 3, 250, 128, 0, 255, 255, 255, 77, 0, 6));
  EXPECT_THAT(encode_png(2, 2, rgba), ElementsAreArray(png));
}

class FiltersOfReport : public ReportFolder {
 protected:
  void save(const std::string& checkpoint, int block,
            const NamedTensors& weights) const {
    const std::string folder = path(checkpoint);
    std::filesystem::create_directories(folder);
    write_safetensors(fmt::format("{}/block-{}.safetensors", folder, block),
                      weights);
  }
  /// What check_report.py says about the page.
  std::string checked(const SampleShape& sample = {}) const {
    const ReportFiles files = write_report(
        {.folders = {folder_}, .facts = [sample](const ConfigNode&) {
           return ConfigFacts{.sample = sample};
         }});
    FILE* pipe =
        ::popen(fmt::format("{} {}/experiments/helpers/check_report.py {} 2>&1",
                            SLUICE_TEST_PYTHON, SLUICE_TEST_FOLDER, files.page)
                    .c_str(),
                "r");
    std::string text;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0;
         (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      text.append(buffer.data(), n);
    EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), 0) << text;
    return text;
  }
};

TEST_F(FiltersOfReport, AreThoseOfTheBestCheckpointOrElseTheLast) {
  make_run("run", {});
  EXPECT_THAT(checked(), Not(HasSubstr("section filters")));
  save("run/checkpoints/turn-000010", 1,
       {{"layers.0.conv.weight", at::ones({2, 3, 5, 5})}});
  save("run/checkpoints/turn-000020", 1,
       {{"layers.0.conv.weight", at::ones({4, 3, 5, 5})}});
  EXPECT_THAT(checked(),
              AllOf(HasSubstr("section filters"), HasSubstr("picture 23x5")));
  std::filesystem::create_directory_symlink("turn-000010",
                                            path("run/checkpoints/best"));
  EXPECT_THAT(checked(), AllOf(HasSubstr("picture 11x5\n"),
                               Not(HasSubstr("picture 23x5"))));
}

TEST_F(FiltersOfReport, AreOfTheFirstLayerWithWeightsInWhicheverBlock) {
  make_run("run", {});
  // Neither the order of files nor that of texts is that of the layers.
  save("run/checkpoints/turn-000020", 1,
       {{"layers.10.conv.weight", at::ones({2, 3, 4, 4})},
        {"layers.1.norm.weight", at::ones({16})}});
  save("run/checkpoints/turn-000020", 2,
       {{"heads.0.linear.weight", at::ones({3, 12})},
        {"layers.2.linear.weight", at::ones({3, 12})}});
  EXPECT_THAT(checked({3, 2, 2}), HasSubstr("picture 8x2\n"));
  EXPECT_THAT(checked(), Not(HasSubstr("picture")))
      << "a layer behind it sees no image";
}

TEST_F(FiltersOfReport, ThatCantBeReadSayWhyAndTheRestIsThere) {
  make_run("run", {});
  write("run/checkpoints/turn-000020/block-1.safetensors", "nonsense");
  const std::string page = checked();
  EXPECT_THAT(page,
              AllOf(HasSubstr("section filters"), HasSubstr("section curves"),
                    Not(HasSubstr("picture"))));
  EXPECT_THAT(slurp(path("report.html")), HasSubstr("block-1.safetensors"));
}

}  // namespace sluice::report::filters_test
