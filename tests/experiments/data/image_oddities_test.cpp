// Folders of images as they are found: with files of systems and programs,
// links, orientation tags and damaged images.
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/data_check.h"
#include "experiments/data/found.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/data/sets/image_folder.h"
#include "experiments/data/sets/image_walk.h"
#include "tests/experiments/data/orientation_test_files.h"

namespace sluice::image_oddities_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const char* const kPlain = "size = 1\nmean = [0, 0, 0]\nstd = [1, 1, 1]\n";

class ImageOddities : public DataFolder {
 protected:
  ImageOddities() {
    write_red("train/ant/a.png", 10);
    write_red("train/ant/b.png", 20);
    write_red("train/cat/c.png", 30);
    write_red("test/ant/d.png", 40);
    write_red("test/cat/e.png", 50);
  }

  DataSet open(const std::string& options = "") const {
    const ConfigNode config = parse_toml(
        "folder = \"pictures\"\n" + std::string(kPlain) + options, "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_image_folder(fields);
    fields.finish();
    return make(root());
  }
  void write_red(const std::string& name, std::uint8_t red) const {
    write("pictures/" + name, flat_png(1, 1, {red, 0, 0}));
  }
  void write_damaged(const std::string& name) const {
    Bytes png = patterned_png(16, 16);
    png.resize(png.size() / 2);
    write("pictures/" + name, png);
  }
  void link(const std::string& to, const std::string& name) const {
    fs::create_directory_symlink(to, path("pictures/" + name));
  }
};

std::vector<int> reds_of(const Split& split) {
  const at::Tensor reds =
      (all_of(split).inputs.select(1, 0) * 255).round().to(at::kInt).flatten();
  const int* first = reds.const_data_ptr<int>();
  return {first, first + reds.numel()};
}

TEST_F(ImageOddities, FoldersThatProgramsAndSystemsMakeAreNoClasses) {
  for (const std::string folder :
       {".ipynb_checkpoints", "__MACOSX", "@eaDir", ".AppleDouble"}) {
    write_red("train/" + folder + "/a.png", 99);
    write_red("train/ant/" + folder + "/a.png", 99);
  }
  const DataSet data = open();
  EXPECT_EQ(data.sample.classes, 2);
  EXPECT_THAT(reds_of(data.train), ElementsAre(10, 20, 30));
  EXPECT_THAT(found_line(data), HasSubstr("left out: 8 hidden folders"));
}

TEST_F(ImageOddities, FilesThatSystemsMakeAreLeftOut) {
  write("pictures/train/ant/._a.png", {0, 5, 0x16, 7, 0, 2});
  write("pictures/train/ant/.DS_Store", {0});
  write("pictures/test/cat/Thumbs.db", {0});
  const DataSet data = open();
  EXPECT_EQ(data.train.size(), 3);
  EXPECT_THAT(found_line(data), HasSubstr("left out: 3 hidden files"));
}

TEST_F(ImageOddities, ImagesOfOtherKindsAreCounted) {
  for (const std::string name : {"a.webp", "b.WEBP", "c.bmp", "d.tif", "e.gif"})
    write("pictures/train/ant/" + name, {0});
  write("pictures/train/ant/notes", {0});
  write_red("train/lost.png", 1);
  EXPECT_THAT(found_line(open()),
              HasSubstr("left out: 1 .bmp, 1 .gif, 1 .tif, 2 .webp, 1 file "
                        "without an ending, 1 image in no class"));
  write("pictures/train/bee/a.webp", {0});
  EXPECT_THAT(error_of([&] { open(); }),
              AllOf(HasSubstr("train/bee: has no image (.png, .jpg or .jpeg)"),
                    HasSubstr("1 .webp"), Not(HasSubstr("\n"))));
}

TEST_F(ImageOddities, AnImageOfAnotherKindIsNamedWhateverItsEnding) {
  const Bytes webp = {'R', 'I', 'F', 'F', 9, 0, 0, 0, 'W', 'E', 'B', 'P', 0};
  write("pictures/test/cat/e.jpg", webp);
  EXPECT_THAT(error_of([&] { open().test.samples(); }),
              AllOf(HasSubstr("cat/e.jpg: "), HasSubstr("a WebP file")));
  write("pictures/test/cat/e.jpg", {0, 5, 0x16, 7, 0, 2, 0, 0});
  EXPECT_THAT(error_of([&] { open().test.samples(); }),
              HasSubstr("resource fork"));
  write("pictures/test/cat/e.jpg", {});
  EXPECT_THAT(error_of([&] { open().test.samples(); }), HasSubstr("is empty"));
}

TEST_F(ImageOddities, LinksToFoldersAreFollowed) {
  write_red("../elsewhere/more/z.png", 60);
  link(path("elsewhere"), "train/ant/linked");
  link(path("elsewhere/more"), "train/bee");
  write_red("test/bee/f.png", 70);
  const DataSet data = open();
  EXPECT_EQ(data.sample.classes, 3) << "a link is a class too";
  EXPECT_THAT(reds_of(data.train), ElementsAre(10, 20, 60, 60, 30));
  EXPECT_THAT(found_line(data),
              HasSubstr("1 file more than once, in classes or splits"));
}

TEST_F(ImageOddities, LinksThatFormARingAreReadOnce) {
  link("..", "train/ant/up");
  link(".", "train/ant/self");
  link("nowhere", "train/ant/broken");
  fs::create_directories(path("pictures/train/ant/deep/."));
  write_red("train/ant/deep/x.png", 15);
  link("../deep", "train/ant/deep/again");
  EXPECT_THAT(found_line(open()), HasSubstr("broken link"));
  // "up" is the folder of all classes, the others' images below it included.
  fs::remove(path("pictures/train/ant/up"));
  const DataSet data = open();
  EXPECT_THAT(reds_of(data.train), ElementsAre(10, 20, 15, 30));
  EXPECT_THAT(found_line(data),
              HasSubstr("2 links to a folder that is read already"));
}

TEST_F(ImageOddities, AFileThatIsInBothSplitsIsTold) {
  fs::remove_all(path("pictures/test"));
  link("train", "test");
  EXPECT_THAT(found_line(open()), HasSubstr("3 files more than once"));
}

TEST_F(ImageOddities, ImagesAreTurnedAsTheirTagSays) {
  Bytes two = {10, 0, 0, 90, 0, 0};  // left and right
  const Bytes plain = png_of(1, 2, PngKind::rgb, two);
  write("pictures/test/ant/d.png", with_orientation(plain, 6));
  write("pictures/test/cat/e.png", plain);
  const std::string side = "size = 2\nmean = [0, 0, 0]\nstd = [1, 1, 1]\n";
  const auto reds = [&](const std::string& options) {
    const ConfigNode config =
        parse_toml("folder = \"pictures\"\n" + side + options, "test.toml");
    Fields fields(&config, "data");
    const DataSet data = configure_image_folder(fields)(root());
    EXPECT_THAT(found_line(data), HasSubstr("orientation tags: 1 image "));
    return reds_of(data.test);
  };
  // Resized to 2 x 4 or 4 x 2, of which the middle is the sample.
  const std::vector<int> upright = reds("");
  ASSERT_THAT(upright, SizeIs(8));
  EXPECT_LT(upright[0], upright[2]) << "from the top down";
  EXPECT_EQ(upright[0], upright[1]);
  EXPECT_LT(upright[4], upright[5]) << "the other from left to right";
  const std::vector<int> ignored = reds("exif_orientation = false");
  EXPECT_LT(ignored[0], ignored[1]);
  EXPECT_EQ(ignored[0], ignored[2]);
}

TEST_F(ImageOddities, ADamagedImageOfTheTestIsNamedBeforeTheFirstTurn) {
  write_damaged("test/cat/e.png");
  const DataSet data = open();
  EXPECT_EQ(data.train.samples()->size(), 3);
  EXPECT_THAT(error_of([&] { data.test.samples(); }),
              AllOf(HasSubstr("test/cat/e.png: is a damaged PNG"),
                    HasSubstr("of 2 test images 1 can't be decoded"),
                    HasSubstr("data.on_bad = \"skip\""), Not(HasSubstr("\n"))));
}

TEST_F(ImageOddities, ADamagedImageOfTheTrainingIsNamedBeforeTheFirstTurn) {
  write_damaged("train/ant/a.png");
  EXPECT_THAT(error_of([&] { open().train.samples(); }),
              HasSubstr("train/ant/a.png: is a damaged PNG"));
}

TEST_F(ImageOddities, DamagedImagesAreLeftOutOfEverySplitAndCounted) {
  write_damaged("train/ant/a.png");
  write_damaged("test/cat/e.png");
  const ConfigNode before = fingerprint_of(open());
  const DataSet data = open("on_bad = \"skip\"");
  EXPECT_THAT(reds_of(data.train), ElementsAre(20, 30));
  EXPECT_THAT(labels_of(data.train), ElementsAre(0, 1));
  EXPECT_THAT(reds_of(data.test), ElementsAre(40));
  EXPECT_THAT(
      found_line(data),
      AllOf(HasSubstr("left out as damaged: 2 images (a.png, ...)"),
            HasSubstr("test: 1 image of only 1 of the 2 classes (ant 1, cat "
                      "0)")));
  EXPECT_NE(fingerprint_of(data), before) << "other samples are trained on";
  write_damaged("test/ant/d.png");
  EXPECT_THAT(error_of([&] { open("on_bad = \"skip\""); }),
              HasSubstr("no image of test can be decoded"));
}

TEST_F(ImageOddities, ACheckNamesEachDamagedImage) {
  write_damaged("train/ant/a.png");
  write_damaged("test/cat/e.png");
  for (const std::string options : {"", "on_bad = \"skip\""}) {
    const DataSet data = open(options);
    std::vector<std::string> damaged;
    std::vector<std::string> listed;
    const DataCheckResult checked = check_data(
        data, [&](const std::string& line) { damaged.push_back(line); },
        [&](const std::string& line) { listed.push_back(line); });
    EXPECT_EQ(checked.read, 5);
    EXPECT_EQ(checked.damaged, 2);
    EXPECT_THAT(damaged, testing::UnorderedElementsAre(
                             HasSubstr("train/ant/a.png: is a damaged PNG"),
                             HasSubstr("test/cat/e.png: is a damaged PNG")));
    EXPECT_THAT(listed, testing::Contains(AllOf(HasSubstr("train 0 ant 1x1 1 "),
                                                HasSubstr("train/ant/b.png"))));
    EXPECT_EQ(data.leaves_out_damaged, options != "");
  }
}

TEST_F(ImageOddities, OneClassAloneIsRefused) {
  fs::remove_all(path("pictures/train/cat"));
  fs::remove_all(path("pictures/test/cat"));
  EXPECT_THAT(error_of([&] { open(); }),
              AllOf(HasSubstr("has one class only ('ant')"),
                    HasSubstr("two at least")));
}

TEST_F(ImageOddities, FoldersOfSplitsAreNotTakenForClasses) {
  EXPECT_THAT(error_of([&] { open("test = 0.5"); }),
              HasSubstr("its folders (test, train) are splits"));
}

TEST_F(ImageOddities, TheLineNamesClassesAndTheirImages) {
  EXPECT_EQ(found_line(open()),
            "Data: 3 training and 2 test samples, [3, 1, 1], 2 classes; train: "
            "3 images of 2 classes (ant 2, cat 1); test: 2 images of 2 classes "
            "(ant 1, cat 1)");
}

TEST_F(ImageOddities, AWalkOfManyFilesIsKeptUntilOneOfThemChanges) {
  const std::string cache = path("cache/.");
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string restored = before == nullptr ? "" : before;
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  std::vector<ImagePlace> places;
  for (int i = 0; i < 300; ++i) {
    write_red("many/" + std::to_string(i) + ".png", 7);
    places.push_back({path("pictures/many/" + std::to_string(i) + ".png")});
  }
  write("pictures/many/7.png", with_orientation(flat_png(1, 1, {1, 1, 1}), 3));
  write_damaged("many/8.png");
  const auto kept = [&] {
    std::vector<std::string> files;
    std::error_code none;
    for (const auto& entry :
         fs::recursive_directory_iterator(path("cache/."), none))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    return files;
  };
  EXPECT_THAT(kept(), IsEmpty());
  for (int again = 0; again < 2; ++again) {
    const WalkSummary seen = summary_of_walk(places);
    EXPECT_EQ(seen.turned, 1);
    ASSERT_THAT(seen.damaged, SizeIs(1));
    EXPECT_EQ(seen.damaged[0].index, 8);
    EXPECT_THAT(seen.damaged[0].damage, HasSubstr("8.png: is a damaged"));
    EXPECT_THAT(kept(), SizeIs(1));
  }
  write_damaged("many/9.png");
  EXPECT_THAT(summary_of_walk(places).damaged, SizeIs(2));
  write("pictures/../" + kept()[0].substr(root().size()), {'x'});
  EXPECT_THAT(summary_of_walk(places).damaged, SizeIs(2));
  if (before == nullptr)
    ::unsetenv("XDG_CACHE_HOME");
  else
    ::setenv("XDG_CACHE_HOME", restored.c_str(), 1);
}

}  // namespace sluice::image_oddities_test
