#include "experiments/data/data_sets.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_sets_test {

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

/// The largest of |mean| and |std - 1| of a channel of the training inputs:
/// zero when they are normalised by their own mean and deviation.
double imbalance(const DataSet& data_set) {
  const at::Tensor inputs = all_of(data_set.train).inputs;
  const at::Tensor mean = inputs.mean({0, 2, 3}).abs().max();
  const at::Tensor deviation = (inputs.std({0, 2, 3}) - 1).abs().max();
  return std::max(mean.item<double>(), deviation.item<double>());
}

TEST(DataSets, TheBuiltInOneNeedsNoFolder) {
  EXPECT_EQ(configured("drawn_digits")("").sample.classes, 10);
}

TEST_F(PublishedFiles, FilesOfMnistHaveTheirPublishedSizes) {
  const DataSet mnist = configured("mnist")(root_);
  EXPECT_EQ(mnist.train.size(), 60000);
  EXPECT_EQ(mnist.test.size(), 10000);
}

TEST_F(PublishedFiles,
       FilesOfMnistHaveTheMeanAndDeviationThatInputsAreNormalisedWith) {
  const DataSet mnist = configured("mnist")(root_);
  EXPECT_LT(imbalance(mnist), 1e-3);
}

TEST_F(PublishedFiles, FilesOfCifar10HaveTheirPublishedSizes) {
  const DataSet cifar10 = configured("cifar10")(root_);
  EXPECT_EQ(cifar10.train.size(), 50000);
  EXPECT_EQ(cifar10.test.size(), 10000);
}

TEST_F(PublishedFiles,
       FilesOfCifar10HaveTheMeanAndDeviationThatInputsAreNormalisedWith) {
  const DataSet cifar10 = configured("cifar10")(root_);
  // The files may come from recompressed images.
  EXPECT_LT(imbalance(cifar10), 0.05);
}

TEST_F(PublishedFiles, FilesOfTinyShakespeareHave65CharactersAndWindowsOfThem) {
  const DataSet text = configured("tiny_shakespeare")(root_);
  EXPECT_TRUE(text.sample.is_text);
  EXPECT_EQ(text.sample.classes, 65);
  EXPECT_EQ(text.sample.shape, SampleShape{128});
  // 1,003,854 bytes for training, of which one window is the room to move.
  EXPECT_EQ(text.train.size(), 7842 - 1);
  EXPECT_EQ(text.test.size(), 111539 / 128);
}

}  // namespace sluice::data_sets_test
