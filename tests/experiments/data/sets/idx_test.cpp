#include "experiments/data/sets/idx.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/files/idx_file.h"
#include "lib/base/config.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_idx_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// The header of an idx file of unsigned bytes.
Bytes header(std::initializer_list<std::uint32_t> sizes) {
  Bytes bytes = {0, 0, 8, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<std::uint8_t>(size >> shift));
    }
  }
  return bytes;
}

Bytes joined_bytes(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Bytes images(std::uint32_t count) {
  return joined_bytes(header({count, 28, 28}), Bytes(count * 784, 9));
}

Bytes labels(const Bytes& values) {
  return joined_bytes(header({static_cast<std::uint32_t>(values.size())}),
                      values);
}

class Idx : public DataFolder {
 protected:
  void write_mnist() const {
    write("mnist/train-images-idx3-ubyte", images(3));
    write("mnist/train-labels-idx1-ubyte", labels({7, 0, 9}));
    write_gz("mnist/t10k-images-idx3-ubyte.gz", images(2));
    write_gz("mnist/t10k-labels-idx1-ubyte.gz", labels({1, 2}));
  }

  DataSet mnist() const { return configured()(root()); }
  static MakeDataSet configured() {
    Fields fields(nullptr, "data");
    return configure_mnist(fields);
  }
  std::string mnist_error() const {
    return error_of([this] { read_all(mnist()); });
  }
};

TEST_F(Idx, ReadsSizesAndValues) {
  const IdxFile file =
      read_idx(write("a", joined_bytes(header({2, 3}), {1, 2, 3, 4, 5, 6})), 2);
  EXPECT_THAT(file.sizes, ElementsAre(2, 3));
  EXPECT_THAT(file.values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Idx, ReadsAGzippedFile) {
  EXPECT_THAT(read_idx(write_gz("a.gz", labels({4, 5})), 1).values,
              ElementsAre(4, 5));
}

TEST_F(Idx, RefusesAFileShorterThanItsHeader) {
  const std::string path = write("a", labels({1}));
  EXPECT_THAT(error_of([&] { read_idx(path, 3); }),
              AllOf(HasSubstr(path), HasSubstr("9 bytes")));
}

TEST_F(Idx, NamesTheMagicNumberThatItFoundAndTheOneThatItExpected) {
  const std::string path = write("a", images(1));
  EXPECT_THAT(
      error_of([&] { read_idx(path, 1); }),
      AllOf(HasSubstr(path), HasSubstr("0x00000803"), HasSubstr("0x00000801")));
}

TEST_F(Idx, RefusesATruncatedFile) {
  Bytes bytes = images(2);
  bytes.pop_back();
  const std::string path = write("a", bytes);
  EXPECT_THAT(error_of([&] { read_idx(path, 3); }),
              AllOf(HasSubstr(path), HasSubstr("1567"), HasSubstr("1568")));
}

TEST_F(Idx, RefusesBytesBeyondItsEnd) {
  Bytes bytes = images(1);
  bytes.push_back(0);
  const std::string path = write("a", bytes);
  EXPECT_THAT(error_of([&] { read_idx(path, 3); }), HasSubstr("785"));
}

TEST_F(Idx, RefusesSizesWhoseProductOverflows) {
  const std::uint32_t huge = 0x80000000;
  const std::string path = write("a", header({huge, huge, 4}));
  EXPECT_THAT(error_of([&] { read_idx(path, 3); }), HasSubstr("sizes"));
}

TEST_F(Idx, RefusesATruncatedGzippedFile) {
  const std::string path = write_gz("a.gz", images(20));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  EXPECT_THAT(error_of([&] { read_idx(path, 3); }), HasSubstr(path));
}

TEST_F(Idx, RefusesADamagedGzippedFile) {
  const std::string path = write_gz("a.gz", images(20));
  // The checksum is in the last eight bytes.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-8, std::ios::end);
  file.put('\x55');
  file.close();
  EXPECT_THAT(error_of([&] { read_idx(path, 3); }), HasSubstr(path));
}

TEST_F(Idx, MnistReadsPlainAndGzippedFiles) {
  write_mnist();
  const DataSet mnist = this->mnist();
  EXPECT_EQ(mnist.train.size(), 3);
  EXPECT_EQ(mnist.test.size(), 2);
  EXPECT_THAT(labels_of(mnist.train), ElementsAre(7, 0, 9));
  EXPECT_THAT(labels_of(mnist.test), ElementsAre(1, 2));
}

TEST_F(Idx, ATruncatedPlainFileIsFoundWithoutReadingTheImages) {
  write_mnist();
  Bytes bytes = images(3);
  bytes.pop_back();
  write("mnist/train-images-idx3-ubyte", bytes);
  EXPECT_THAT(error_of([this] { mnist(); }),
              HasSubstr("train-images-idx3-ubyte: has 2351 bytes"));
}

TEST_F(Idx, MnistRefusesADamagedGzippedFile) {
  write_mnist();
  const std::string path = this->path("mnist/t10k-images-idx3-ubyte.gz");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  EXPECT_EQ(mnist_error(),
            path +
                ": can't be read: unexpected end of file; if it is damaged, "
                "get it again");
}

TEST_F(Idx, FashionMnistHasItsOwnFolder) {
  Fields fields(nullptr, "data");
  const MakeDataSet make = configure_fashion_mnist(fields);
  EXPECT_THAT(error_of([&] { make(root()); }), HasSubstr("/fashion-mnist/"));
}

TEST_F(Idx, KmnistHasItsOwnFolder) {
  Fields fields(nullptr, "data");
  const MakeDataSet make = configure_kmnist(fields);
  EXPECT_THAT(error_of([&] { make(root()); }), HasSubstr("/kmnist/"));
}

TEST_F(Idx, AMissingFileSaysWhereItWasLookedForAndHowToNameTheFolder) {
  EXPECT_THAT(mnist_error(),
              AllOf(HasSubstr(root() + "/mnist/train-images-idx3-ubyte"),
                    HasSubstr("data.root"), HasSubstr("SLUICE_DATA")));
}

TEST_F(Idx, AMissingRootSaysHowToNameIt) {
  EXPECT_THAT(error_of([] { configured()(""); }),
              AllOf(HasSubstr("mnist/train-images-idx3-ubyte"),
                    HasSubstr("data.root"), HasSubstr("SLUICE_DATA")));
}

TEST_F(Idx, RefusesALabelOutOfRange) {
  write_mnist();
  write("mnist/train-labels-idx1-ubyte", labels({7, 10, 9}));
  EXPECT_THAT(mnist_error(),
              AllOf(HasSubstr("train-labels-idx1-ubyte"), HasSubstr("sample 1"),
                    HasSubstr("label 10"), HasSubstr("0 to 9")));
}

TEST_F(Idx, RefusesMoreImagesThanLabels) {
  write_mnist();
  write("mnist/train-labels-idx1-ubyte", labels({7, 0}));
  EXPECT_THAT(mnist_error(),
              AllOf(HasSubstr("3 images"), HasSubstr("2 labels")));
}

TEST_F(Idx, RefusesImagesOfAnotherSize) {
  write_mnist();
  write("mnist/train-images-idx3-ubyte",
        joined_bytes(header({3, 32, 32}), Bytes(3 * 1024, 0)));
  EXPECT_THAT(mnist_error(), AllOf(HasSubstr("32x32"), HasSubstr("28x28")));
}

TEST_F(Idx, RefusesAFileWithoutImages) {
  write_mnist();
  write("mnist/train-images-idx3-ubyte", header({0, 28, 28}));
  write("mnist/train-labels-idx1-ubyte", labels({}));
  EXPECT_THAT(mnist_error(), HasSubstr("no image"));
}

}  // namespace sluice::data_idx_test
