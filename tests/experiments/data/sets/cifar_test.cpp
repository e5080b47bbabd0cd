#include "experiments/data/sets/cifar.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/files/cifar_file.h"
#include "lib/base/config.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_cifar_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kImage = 3072;

/// A record whose red is 1, green 2 and blue 3.
Bytes record(const Bytes& labels) {
  Bytes bytes = labels;
  for (const std::uint8_t colour : {1, 2, 3}) {
    bytes.insert(bytes.end(), kImage / 3, colour);
  }
  return bytes;
}

class Cifar : public DataFolder {
 protected:
  void write_cifar10() const {
    const std::string folder = "cifar-10-batches-bin/";
    for (const char batch : {'1', '2', '3', '4', '5'}) {
      const auto label = static_cast<std::uint8_t>(batch - '0');
      write(folder + "data_batch_" + batch + ".bin", record({label}));
    }
    write_gz(folder + "test_batch.bin.gz", record({9}));
  }
  DataSet cifar10() const {
    Fields fields(nullptr, "data");
    return configure_cifar10(fields)(root());
  }
  std::string cifar10_error() const {
    return error_of([this] { read_all(cifar10()); });
  }
  DataSet cifar100(const std::string& labels) const {
    ConfigNode options;
    if (!labels.empty()) options.set("labels", {.value = labels});
    Fields fields(&options, "data");
    return configure_cifar100(fields)(root());
  }
};

TEST_F(Cifar, ReadsTheFiveTrainingFilesInOrder) {
  write_cifar10();
  const DataSet data_set = cifar10();
  EXPECT_EQ(data_set.train.size(), 5);
  EXPECT_THAT(labels_of(data_set.train), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(Cifar, ReadsTheTestFile) {
  write_cifar10();
  const DataSet data_set = cifar10();
  EXPECT_EQ(data_set.test.size(), 1);
  EXPECT_THAT(labels_of(data_set.test), ElementsAre(9));
}

TEST_F(Cifar, KeepsTheChannelsInTheirOrder) {
  const Bytes pixels = read_cifar({write("a.bin", record({7}))}, {}).pixels;
  EXPECT_EQ(pixels.front(), 1);
  EXPECT_EQ(pixels.at(kImage / 2), 2);
  EXPECT_EQ(pixels.back(), 3);
}

TEST_F(Cifar, TakesTheLabelFromItsPlaceAmongSeveral) {
  const Images images =
      read_cifar({write("a.bin", record({3, 77}))},
                 {.label_bytes = 2, .label_at = 1, .classes = 100});
  EXPECT_THAT(images.labels, ElementsAre(77));
  EXPECT_EQ(images.pixels.front(), 1);
}

TEST_F(Cifar, A100HasFineLabelsUnlessCoarseOnesAreAskedFor) {
  write("cifar-100-binary/train.bin", record({3, 77}));
  write("cifar-100-binary/test.bin", record({19, 99}));
  const DataSet fine = cifar100("");
  EXPECT_EQ(fine.sample.classes, 100);
  EXPECT_THAT(labels_of(fine.train), ElementsAre(77));
  EXPECT_THAT(labels_of(fine.test), ElementsAre(99));
  const DataSet coarse = cifar100("coarse");
  EXPECT_EQ(coarse.sample.classes, 20);
  EXPECT_THAT(labels_of(coarse.train), ElementsAre(3));
}

TEST_F(Cifar, A100RefusesACoarseLabelOutOfRange) {
  write("cifar-100-binary/train.bin", record({20, 77}));
  write("cifar-100-binary/test.bin", record({1, 1}));
  EXPECT_THAT(error_of([&] { read_all(cifar100("coarse")); }),
              AllOf(HasSubstr("train.bin"), HasSubstr("label 20")));
}

TEST_F(Cifar, A100RefusesOtherLabels) {
  EXPECT_THAT(error_of([&] { cifar100("rough"); }), HasSubstr("coarse"));
}

TEST_F(Cifar, WrongSizesAreFoundWithoutReadingTheImages) {
  write_cifar10();
  write("cifar-10-batches-bin/data_batch_3.bin", Bytes(3072, 0));
  EXPECT_THAT(error_of([&] { cifar10(); }), HasSubstr("data_batch_3.bin"));
}

TEST_F(Cifar, RefusesASizeThatIsNoMultipleOfARecord) {
  write_cifar10();
  write("cifar-10-batches-bin/data_batch_3.bin", Bytes(3072, 0));
  EXPECT_THAT(cifar10_error(),
              AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("3072 bytes"),
                    HasSubstr("multiple of 3073")));
}

TEST_F(Cifar, RefusesAnEmptyFile) {
  write_cifar10();
  write("cifar-10-batches-bin/data_batch_3.bin", {});
  EXPECT_THAT(cifar10_error(), HasSubstr("has 0 bytes"));
}

TEST_F(Cifar, RefusesALabelOutOfRange) {
  write_cifar10();
  write("cifar-10-batches-bin/data_batch_2.bin", record({10}));
  EXPECT_THAT(cifar10_error(),
              AllOf(HasSubstr("data_batch_2.bin"), HasSubstr("label 10"),
                    HasSubstr("0 to 9")));
}

TEST_F(Cifar, AMissingFileSaysWhereItWasLookedForAndHowToNameTheFolder) {
  EXPECT_THAT(
      cifar10_error(),
      AllOf(HasSubstr(root() + "/cifar-10-batches-bin/data_batch_1.bin"),
            HasSubstr("data.root"), HasSubstr("SLUICE_DATA")));
}

}  // namespace sluice::data_cifar_test
