#include "experiments/data/sets/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/change/augmentation.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/data/order/sample_source.h"
#include "experiments/data/sets/images.h"
#include "lib/base/config.h"
#include "tests/experiments/data/image_test_files.h"

namespace sluice::image_folder_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Values in 0..1 as they are.
const char* const kPlain = "mean = [0, 0, 0]\nstd = [1, 1, 1]\n";

class ImageFolder : public DataFolder {
 protected:
  DataSet open(const std::string& options) const {
    const ConfigNode config =
        parse_toml("folder = \"pictures\"\n" + options, "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_image_folder(fields);
    fields.finish();
    return make(root());
  }

  /// Two classes, three pictures for training and two for the test.
  void write_pictures() const {
    write("pictures/train/cat/b.png", flat_png(6, 6, {51, 102, 153}));
    write("pictures/train/cat/a.PNG", patterned_png(7, 10));
    write("pictures/train/ant/deeper/c.png", flat_png(3, 9, {0, 255, 0}));
    write("pictures/train/ant/readme.txt", {'n', 'o'});
    write("pictures/test/cat/a.png", patterned_png(7, 10));
    write("pictures/test/ant/d.png", flat_png(4, 4, {255, 0, 0}));
  }
};

Batch sample(const Split& split, std::int64_t index, EpochKey key = {}) {
  return split.samples()->batch({&index, 1}, key);
}

/// Channel c of one sample, as bytes.
std::vector<int> bytes_of_channel(const Batch& batch, std::int64_t c) {
  const at::Tensor values =
      (batch.inputs[0][c] * 255).round().to(at::kInt).flatten();
  const int* first = values.const_data_ptr<int>();
  return {first, first + values.numel()};
}

TEST_F(ImageFolder, HasTheFoldersOfTrainAsClassesInTheOrderOfTheirNames) {
  write_pictures();
  const DataSet data = open("size = 4");
  EXPECT_EQ(data.sample.classes, 2);
  EXPECT_EQ(data.sample.shape, (SampleShape{3, 4, 4}));
  EXPECT_THAT(labels_of(data.train), ElementsAre(0, 1, 1));
  EXPECT_THAT(labels_of(data.test), ElementsAre(0, 1));
  EXPECT_FALSE(data.has_validation());
}

TEST_F(ImageFolder, SamplesAreTheMiddleOfTheResizedImage) {
  write_pictures();
  const DataSet data = open(std::string(kPlain) + "size = 4\nresize = 5");
  const Batch batch = sample(data.test, 1);  // cat/a.png, by Pillow 11.3
  EXPECT_THAT(bytes_of_channel(batch, 0),
              ElementsAre(117, 171, 182, 30, 130, 184, 195, 43, 146, 200, 182,
                          57, 162, 216, 70, 66));
  EXPECT_THAT(bytes_of_channel(batch, 2),
              ElementsAre(214, 178, 141, 148, 144, 93, 65, 94, 72, 121, 140,
                          119, 122, 148, 64, 115));
}

TEST_F(ImageFolder, SamplesAreNormalisedByMeanAndDeviation) {
  write_pictures();
  const DataSet data =
      open("size = 4\nmean = [0.1, 0.2, 0.3]\nstd = [0.5, 0.25, 2]");
  const at::Tensor inputs = sample(data.train, 2).inputs;  // cat/b.png
  const at::Tensor expected =
      at::tensor(
          {(0.2F - 0.1F) / 0.5F, (0.4F - 0.2F) / 0.25F, (0.6F - 0.3F) / 2})
          .view({1, 3, 1, 1})
          .expand({1, 3, 4, 4});
  EXPECT_TRUE(at::allclose(inputs, expected, 1e-5, 1e-6));
}

TEST_F(ImageFolder, AResizedCropIsTheDrawnPartAndDiffersBetweenEpochs) {
  write_pictures();
  const DataSet data =
      open(std::string(kPlain) + "size = 4\naugment = {resized_crop = 0.1}");
  const Augmentation augmentation = {.resized_crop = 0.1};
  const Bytes rgb = patterned(7, 10);
  std::set<std::vector<int>> looks;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    const EpochKey key = {.seed = 3, .epoch = epoch};
    const ImageBox box = draw_resized_crop(augmentation, key, 1, 7, 10);
    Bytes expected(16);
    const PlaneView green = {.first = rgb.data() + 1,
                             .height = 7,
                             .width = 10,
                             .row_stride = 30,
                             .pixel_stride = 3};
    resample(green.part(box), 4, 4, {.height = 4, .width = 4}, expected.data());
    const std::vector<int> seen =
        bytes_of_channel(sample(data.train, 1, key), 1);  // cat/a.PNG
    EXPECT_EQ(seen, std::vector<int>(expected.begin(), expected.end()));
    looks.insert(seen);
  }
  EXPECT_GT(looks.size(), 5U);
}

TEST_F(ImageFolder, TestImagesAndThoseWithoutRandomChangesAreNotCropped) {
  write_pictures();
  const std::string size = std::string(kPlain) + "size = 4\n";
  const DataSet plain = open(size);
  const DataSet augmented = open(size + "augment = {resized_crop = 0.1}");
  const EpochKey key = {.seed = 3, .epoch = 2, .augmented = false};
  EXPECT_TRUE(at::equal(sample(plain.train, 1, key).inputs,
                        sample(augmented.train, 1, key).inputs));
  EXPECT_TRUE(at::equal(sample(plain.test, 1, {.seed = 3}).inputs,
                        sample(augmented.test, 1, {.seed = 3}).inputs));
  EXPECT_FALSE(at::equal(sample(plain.train, 1, {.seed = 3}).inputs,
                         sample(augmented.train, 1, {.seed = 3}).inputs));
}

TEST_F(ImageFolder, BatchTIsAPureFunctionOfTheSeedAndT) {
  write_pictures();
  const DataSet data = open("size = 4\naugment = {resized_crop = 0.1}");
  const OrderOptions order = {.batch_size = 2, .seed = 5};
  SampleSource forth(data.train.samples(), order);
  SampleSource back(data.train.samples(), order);
  std::vector<at::Tensor> seen;
  for (std::int64_t t = 0; t < 6; ++t) seen.push_back(forth.batch(t).inputs);
  for (std::int64_t t = 5; t >= 0; --t)
    EXPECT_TRUE(
        at::equal(back.batch(t).inputs, seen[static_cast<std::size_t>(t)]))
        << "batch " << t;
  EXPECT_FALSE(at::equal(seen[0], seen[2])) << "of two epochs";
}

TEST_F(ImageFolder, WithTestAndValHasAValidationSplit) {
  write_pictures();
  write("pictures/val/ant/e.png", flat_png(4, 4, {0, 0, 255}));
  const DataSet data = open("size = 4");
  EXPECT_EQ(data.test.size(), 2);
  EXPECT_THAT(labels_of(data.validation), ElementsAre(0));
  EXPECT_THAT(error_of([&] { open("size = 4\nvalidation = 1"); }),
              HasSubstr("a validation split of its own"));
}

TEST_F(ImageFolder, WithValAloneIsTestedOnIt) {
  write_pictures();
  std::filesystem::rename(path("pictures/test"), path("pictures/val"));
  const DataSet data = open("size = 4");
  EXPECT_EQ(data.test.size(), 2);
  EXPECT_FALSE(data.has_validation());
}

TEST_F(ImageFolder, ImageFolderOfClassesAloneIsDividedByTheShareOfTheTest) {
  for (const std::string folder : {"pictures/a/", "pictures/b/"})
    for (int i = 0; i < 8; ++i)
      write(folder + std::to_string(i) + ".png",
            flat_png(2, 2, {static_cast<std::uint8_t>(10 * i), 0, 0}));
  const DataSet data = open(std::string(kPlain) + "size = 1\ntest = 0.25");
  EXPECT_THAT(labels_of(data.test), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(data.train.size(), 12);
  std::multiset<int> reds;
  for (const Split* split : {&data.train, &data.test})
    for (std::int64_t i = 0; i < split->size(); ++i)
      reds.insert(bytes_of_channel(sample(*split, i), 0).front());
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(reds.count(10 * i), 2U) << "once of each class";
  EXPECT_THAT(error_of([&] { open("size = 1\ntest = 0.01"); }),
              HasSubstr("give a larger share"));
}

TEST_F(ImageFolder, RefusesWhatIsMissingInOneLine) {
  EXPECT_THAT(error_of([&] { open("size = 4"); }),
              AllOf(HasSubstr("no folder"), HasSubstr("data.root")));
  write("pictures/train/cat/a.png", patterned_png(4, 4));
  write("pictures/train/ant/a.png", patterned_png(4, 4));
  EXPECT_THAT(error_of([&] { open("size = 4"); }),
              HasSubstr("expected the folders train and test (or val)"));
  write("pictures/test/dog/a.png", patterned_png(4, 4));
  EXPECT_THAT(error_of([&] { open("size = 4"); }),
              HasSubstr("dog: is no class"));
  std::filesystem::remove_all(path("pictures/test/dog"));
  std::filesystem::create_directories(path("pictures/test/cat"));
  EXPECT_THAT(error_of([&] { open("size = 4"); }), HasSubstr("has no image"));
}

TEST_F(ImageFolder, NamesAnImageThatIsDamagedLaterWhenABatchHasIt) {
  write_pictures();
  const DataSet data = open("size = 4");
  EXPECT_EQ(sample(data.train, 0).labels.numel(), 1);
  write("pictures/train/cat/b.png", {0x89, 'P', 'N', 'G'});
  EXPECT_THAT(error_of([&] { sample(data.train, 2); }),
              AllOf(HasSubstr("cat/b.png: is neither"), Not(HasSubstr("\n"))));
}

TEST_F(ImageFolder, IsToldFromAnotherByNamesAndSizes) {
  write_pictures();
  const ConfigNode first = fingerprint_of(open("size = 4"));
  EXPECT_THAT(first.literal(), HasSubstr("5 files"));
  EXPECT_EQ(fingerprint_of(open("size = 4")), first);
  write("pictures/train/cat/b.png", flat_png(60, 60, {1, 2, 3}));
  EXPECT_NE(fingerprint_of(open("size = 4")), first);
}

TEST_F(ImageFolder, RefusesAResizeBelowTheSize) {
  EXPECT_THAT(error_of([&] { open("size = 4\nresize = 3"); }),
              HasSubstr("not below size = 4"));
  EXPECT_THAT(error_of([&] { open("mean = [0.5]"); }),
              HasSubstr("red, green and blue"));
}

TEST_F(ImageFolder, ImageFolderOfTinyImagenetHasTheLabelsOfItsAnnotations) {
  const std::string root_folder = "tiny-imagenet-200/";
  write(root_folder + "train/n01/images/n01_0.JPEG", patterned_png(64, 64));
  write(root_folder + "train/n02/images/n02_0.JPEG", patterned_png(64, 64));
  write(root_folder + "val/images/val_0.JPEG", patterned_png(64, 64));
  write(root_folder + "val/images/val_1.JPEG", flat_png(64, 64, {9, 9, 9}));
  const std::string text =
      "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t0\t0\t1\t1\n";
  write(root_folder + "val/val_annotations.txt",
        Bytes(text.begin(), text.end()));
  Fields fields(nullptr, "data");
  const MakeDataSet make = configure_tiny_imagenet(fields);
  const DataSet data = make(root());
  EXPECT_EQ(data.sample.shape, (SampleShape{3, 64, 64}));
  EXPECT_THAT(labels_of(data.train), ElementsAre(0, 1));
  EXPECT_THAT(labels_of(data.test), ElementsAre(1, 0));
  write(root_folder + "val/val_annotations.txt", {'x', '\n'});
  EXPECT_THAT(error_of([&] { make(root()); }),
              HasSubstr("val_annotations.txt:1: expected"));
}

TEST(TangoIcons, AreAnImageFolderOfTenClasses) {
  const std::string folder = "/usr/share/icons/Tango/32x32";
  if (!std::filesystem::is_directory(folder))
    GTEST_SKIP() << "the package tango-icon-theme is not installed";
  const ConfigNode config = parse_toml(
      "size = 32\ntest = 0.25\nfolder = \"" + folder + "\"", "test.toml");
  Fields fields(&config, "data");
  const DataSet data = configure_image_folder(fields)("");
  EXPECT_EQ(data.sample.classes, 10);
  EXPECT_GT(data.train.size(), 2 * data.test.size());
  const Batch all = all_of(data.test);
  EXPECT_EQ(all.labels.max().item<std::int64_t>(), 9);
  EXPECT_GT(all.inputs.std().item<double>(), 0.5);
}

}  // namespace sluice::image_folder_test
