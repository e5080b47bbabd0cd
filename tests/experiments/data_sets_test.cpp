#include "experiments/data/data_sets.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

MakeDataSet configured(std::string_view name) {
  Fields fields(nullptr, "data");
  return find_row(data_sets(), name, "data set").make(fields);
}

/// With SLUICE_DATA: the folder of the published files.
class PublishedFiles : public testing::Test {
 protected:
  void SetUp() override {
    const char* root = std::getenv("SLUICE_DATA");
    if (root == nullptr) {
      GTEST_SKIP() << "SLUICE_DATA does not name the folder of data files";
    }
    root_ = root;
  }

  std::string root_;
};

/// The mean of channel `c` of all training images, scaled to 0..1.
double mean_of(const DataSet& data_set, std::size_t c) {
  const auto plane =
      static_cast<std::size_t>(data_set.shape.at(1) * data_set.shape.at(2));
  std::vector<std::uint8_t> pixels(data_set.mean.size() * plane);
  double sum = 0;
  for (std::int64_t i = 0; i < data_set.train->size(); ++i) {
    data_set.train->read(i, pixels);
    for (std::size_t p = 0; p < plane; ++p) sum += pixels[c * plane + p];
  }
  const auto size = static_cast<double>(data_set.train->size());
  return sum / 255.0 / size / static_cast<double>(plane);
}

TEST(DataSets, TheBuiltInOneNeedsNoFolder) {
  EXPECT_EQ(configured("drawn_digits")("").classes, 10);
}

TEST(DataSets, AnUnknownNameIsRefused) {
  EXPECT_THROW(configured("mnits"), UserError);
}

TEST_F(PublishedFiles, OfMnistHaveTheirPublishedSizes) {
  const DataSet mnist = configured("mnist")(root_);
  EXPECT_EQ(mnist.train->size(), 60000);
  EXPECT_EQ(mnist.test->size(), 10000);
}

TEST_F(PublishedFiles, OfMnistHaveTheMeanThatInputsAreNormalisedWith) {
  const DataSet mnist = configured("mnist")(root_);
  EXPECT_NEAR(mean_of(mnist, 0), mnist.mean[0], 1e-4);
}

TEST_F(PublishedFiles, OfCifar10HaveTheirPublishedSizes) {
  const DataSet cifar10 = configured("cifar10")(root_);
  EXPECT_EQ(cifar10.train->size(), 50000);
  EXPECT_EQ(cifar10.test->size(), 10000);
}

TEST_F(PublishedFiles, OfCifar10HaveTheMeanThatInputsAreNormalisedWith) {
  const DataSet cifar10 = configured("cifar10")(root_);
  // The files may come from recompressed images.
  EXPECT_NEAR(mean_of(cifar10, 0), cifar10.mean[0], 5e-3);
  EXPECT_NEAR(mean_of(cifar10, 2), cifar10.mean[2], 5e-3);
}

}  // namespace
}  // namespace sluice
