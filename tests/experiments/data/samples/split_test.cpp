#include <cstdint>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/data/sets/images.h"
#include "experiments/runs/seats/assembly.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_split_test {

using testing::AllOf;
using testing::HasSubstr;

const ImageFormat kDot = {.height = 1, .width = 1, .mean = {0.5}, .std = {0.5}};

TEST(Split, KnowsItsSizeBeforeItIsRead) {
  bool read = false;
  const Split split(3, [&] {
    read = true;
    return image_samples(kDot, {}, {{1, 2, 3}, {0, 1, 2}});
  });
  EXPECT_EQ(split.size(), 3);
  EXPECT_FALSE(read);
  split.samples();
  EXPECT_TRUE(read);
}

TEST(Split, IsReadOnceByAllItsCopies) {
  int reads = 0;
  const Split split(1, [&] {
    ++reads;
    return image_samples(kDot, {}, {{1}, {0}});
  });
  const Split copy = split;
  EXPECT_EQ(split.samples(), copy.samples());
  EXPECT_EQ(reads, 1);
}

TEST(Split, RefusesFilesThatHaveChangedSinceTheirSizeWasRead) {
  const Split split(2, [] { return image_samples(kDot, {}, {{1}, {0}}); });
  EXPECT_THAT(error_of([&] { split.samples(); }),
              AllOf(HasSubstr("2 samples"), HasSubstr("1 ")));
}

/// MNIST-like files whose sizes are right and whose training labels are not.
class DamagedLabels : public DataFolder {
 protected:
  DamagedLabels() {
    for (const std::string split : {"train", "t10k"}) {
      Bytes images = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28};
      images.resize(images.size() + 2 * 784);
      write("mnist/" + split + "-images-idx3-ubyte", images);
      write("mnist/" + split + "-labels-idx1-ubyte",
            labels(split == "train" ? 77 : 7));
    }
  }
  static Bytes labels(std::uint8_t last) {
    return {0, 0, 8, 1, 0, 0, 0, 2, 1, last};
  }
  Experiment experiment() const {
    return read_experiment(
        parse_toml("model = {hidden = [8]}\ndata = {name = 'mnist'}\n",
                   "test.toml"),
        root());
  }
};

TEST_F(DamagedLabels, AreNotReadByWorkersAboveBlockOne) {
  const Experiment experiment = this->experiment();
  EXPECT_NE(make_seat(experiment, 2, {}, nullptr, {}), nullptr);
}

TEST_F(DamagedLabels, AreAnErrorOfBlockOne) {
  const Experiment experiment = this->experiment();
  EXPECT_THAT(
      error_of([&] { make_seat(experiment, 1, {}, nullptr, {}); }),
      AllOf(HasSubstr("train-labels-idx1-ubyte"), HasSubstr("label 77")));
}

}  // namespace sluice::data_split_test
