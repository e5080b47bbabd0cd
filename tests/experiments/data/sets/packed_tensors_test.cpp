#include "experiments/data/sets/packed_tensors.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/order/fingerprint.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/data/packed_test_files.h"

namespace sluice::packed_tensors_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kNpy =
    "train = [\"x.npy\", \"y.npy\"]\ntest = [\"u.npy\", \"v.npy\"]\n";

class PackedTensors : public DataFolder {
 protected:
  DataSet open(const std::string& options) const {
    const ConfigNode config = parse_toml(options, "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_packed_tensors(fields);
    fields.finish();
    return make(root());
  }
  void write_floats(const std::string& name, std::string_view shape,
                    const std::vector<float>& values) const {
    write(name, npy_of("<f4", shape, bytes_of_numbers(values)));
  }
  void write_classes(const std::string& name,
                     const std::vector<std::int64_t>& labels) const {
    write(name, npy_of("<i8", fmt::format("({},)", labels.size()),
                       bytes_of_numbers(labels)));
  }
  /// Three samples for training and two for the test, of two numbers each.
  void write_all() const {
    write_floats("x.npy", "(3, 2)", {1, 2, 3, 4, 5, 6});
    write_classes("y.npy", {0, 2, 1});
    write_floats("u.npy", "(2, 2)", {7, 8, 9, 10});
    write_classes("v.npy", {2, 0});
  }
};

at::Tensor rows(const std::vector<float>& values, std::int64_t columns) {
  return at::tensor(values).view({-1, columns});
}

TEST_F(PackedTensors, TensorsOfNpyFilesWithIntegerTargetsAreClasses) {
  write_all();
  const DataSet data = open(kNpy);
  EXPECT_EQ(data.sample.shape, SampleShape{2});
  EXPECT_EQ(data.sample.classes, 3);
  EXPECT_EQ(data.sample.targets, Targets::classes);
  EXPECT_TRUE(
      at::equal(all_of(data.train).inputs, rows({1, 2, 3, 4, 5, 6}, 2)));
  EXPECT_THAT(labels_of(data.train), ElementsAre(0, 2, 1));
  EXPECT_TRUE(at::equal(all_of(data.test).inputs, rows({7, 8, 9, 10}, 2)));
  const std::vector<std::int64_t> backwards = {2, 0};
  const Batch batch = data.train.samples()->batch(backwards, {});
  EXPECT_TRUE(at::equal(batch.inputs, rows({5, 6, 1, 2}, 2)));
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({1, 0}, at::kLong)));
}

TEST_F(PackedTensors, WithRealTargetsAreNumbersToBePredicted) {
  write_all();
  write_floats("y.npy", "(3, 2)", {1, -1, 2, -2, 3, -3});
  write_floats("v.npy", "(2, 2)", {0, 1, 2, 3});
  const DataSet data = open(kNpy);
  EXPECT_EQ(data.sample.targets, Targets::values);
  EXPECT_EQ(data.sample.classes, 2) << "outputs";
  EXPECT_TRUE(
      at::equal(all_of(data.train).labels, rows({1, -1, 2, -2, 3, -3}, 2)));
  write_floats("y.npy", "(3,)", {1, 2, 3});
  write_floats("v.npy", "(2,)", {1, 2});
  EXPECT_TRUE(at::equal(all_of(open(kNpy).train).labels, rows({1, 2, 3}, 1)));
}

TEST_F(PackedTensors, TensorsOfSafetensorsAreTheTensorsInputsAndTargets) {
  const at::Tensor images = at::arange(24).to(at::kByte).view({2, 3, 2, 2});
  write_safetensors(path("a.safetensors"),
                    {{"other", at::zeros({5})},
                     {"inputs", images},
                     {"targets", at::tensor({1, 0}, at::kInt)}});
  const DataSet data = open(
      "train = \"a.safetensors\"\ntest = \"a.safetensors\"\nscale = 0.5\n");
  EXPECT_EQ(data.sample.shape, (SampleShape{3, 2, 2}));
  EXPECT_TRUE(at::equal(all_of(data.train).inputs, images.to(at::kFloat) / 2));
  EXPECT_THAT(labels_of(data.test), ElementsAre(1, 0));
}

TEST_F(PackedTensors, TensorsOfOtherTypesBecomeFloat) {
  write_all();
  write("x.npy",
        npy_of("<f8", "(3, 1)", bytes_of_numbers<double>({0.5, -2, 1e3})));
  write("u.npy",
        npy_of("<i2", "(2, 1)", bytes_of_numbers<std::int16_t>({-7, 300})));
  const DataSet data = open(kNpy);
  EXPECT_TRUE(at::equal(all_of(data.train).inputs, rows({0.5, -2, 1000}, 1)));
  EXPECT_TRUE(at::equal(all_of(data.test).inputs, rows({-7, 300}, 1)));
}

TEST_F(PackedTensors, KeepSomeForValidation) {
  write_all();
  const DataSet data = open(kNpy + "validation = 1");
  EXPECT_EQ(data.train.size(), 2);
  EXPECT_EQ(data.validation.size(), 1);
}

TEST_F(PackedTensors, WithLabelsOutOfRangeNameTheSample) {
  write_all();
  write_classes("v.npy", {0, 3});
  EXPECT_THAT(error_of([&] { open(kNpy); }),
              HasSubstr("v.npy: sample 1 has the label 3, expected 0 to 2"));
  EXPECT_EQ(open(kNpy + "classes = 4").sample.classes, 4);
  write_classes("y.npy", {0, -1, 1});
  EXPECT_THAT(error_of([&] { open(kNpy); }),
              HasSubstr("y.npy: sample 1 has the label -1"));
  write_classes("y.npy", {0, std::numeric_limits<std::int64_t>::max(), 1});
  EXPECT_THAT(error_of([&] { open(kNpy); }), HasSubstr("y.npy: sample 1"));
}

TEST_F(PackedTensors, ThatDoNotFitTogetherAreRefusedInOneLine) {
  write_all();
  const auto expect_refusal = [&](const std::string& text) {
    EXPECT_THAT(error_of([&] { open(kNpy); }),
                AllOf(HasSubstr(text), Not(HasSubstr("\n"))));
    write_all();
  };
  write_classes("y.npy", {0, 1});
  expect_refusal("has 2 rows, but ");
  write_floats("x.npy", "(1, 2, 3)", {1, 2, 3, 4, 5, 6});
  expect_refusal("inputs are [N, C] or, of images, [N, C, H, W]");
  write_floats("u.npy", "(2, 3)", {1, 2, 3, 4, 5, 6});
  expect_refusal("u.npy: has the shape [2, 3], but ");
  write_floats("v.npy", "(2,)", {0, 1});
  expect_refusal("targets are not like those of");
  write("y.npy", npy_of("<i8", "(3, 2)", Bytes(48)));
  write("v.npy", npy_of("<i8", "(2, 2)", Bytes(32)));
  expect_refusal("targets that are integers are classes");
  write_floats("x.npy", "(0, 2)", {});
  expect_refusal("in which there is nothing");
  write_floats("y.npy", "(3,)",
               {1, std::numeric_limits<float>::quiet_NaN(), 2});
  write_floats("v.npy", "(2,)", {0, 1});
  expect_refusal("y.npy: has a target that is NaN or infinite");
}

TEST_F(PackedTensors, MustBeNamedInOneOfTwoWays) {
  write_all();
  EXPECT_THAT(error_of([&] { open("train = \"x.npy\"\ntest = \"u.npy\""); }),
              HasSubstr("data.train must name one .safetensors file"));
  EXPECT_THAT(error_of([&] { open("test = \"u.npy\""); }),
              HasSubstr("names no file"));
  write_safetensors(path("b.safetensors"), {{"inputs", at::zeros({2, 2})}});
  EXPECT_THAT(error_of([&] {
                open("train = \"b.safetensors\"\ntest = \"b.safetensors\"");
              }),
              HasSubstr("has no tensor 'targets'"));
}

TEST_F(PackedTensors, TensorsOfTheSameNameInTwoFoldersAreDistinguished) {
  write_all();
  write("more/x.npy", npy_of("<f4", "(2, 2)", Bytes(16)));
  const DataSet data = open(
      "train = [\"x.npy\", \"y.npy\"]\ntest = [\"more/x.npy\", \"v.npy\"]");
  EXPECT_THAT(fingerprint_of(data).literal(), HasSubstr("more/x.npy"));
}

}  // namespace sluice::packed_tensors_test
