#include "experiments/data/samples/label_counts.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/found.h"
#include "experiments/data/sets/packed_tensors.h"
#include "tests/experiments/data/packed_test_files.h"

namespace sluice::label_counts_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Labels = std::vector<std::int64_t>;

class LabelFiles : public DataFolder {
 protected:
  DataSet open(const Labels& labels, const std::string& options = "") const {
    write("x.npy", npy_of("<f4", fmt::format("({}, 1)", labels.size()),
                          Bytes(4 * labels.size())));
    write("y.npy", npy_of("<i8", fmt::format("({},)", labels.size()),
                          bytes_of_numbers(labels)));
    const ConfigNode config = parse_toml(
        "train = [\"x.npy\", \"y.npy\"]\ntest = [\"x.npy\", \"y.npy\"]\n" +
            options,
        "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_packed_tensors(fields);
    fields.finish();
    return make(root());
  }
};

TEST_F(LabelFiles, OneLabelOfAHundredMillionAsksForTheNumberOfClasses) {
  EXPECT_THAT(error_of([&] {
                open({0, 1, 100'000'000, 1, 0});
              }),
              AllOf(HasSubstr("y.npy: sample 2 has the label 100000000"),
                    HasSubstr("the 5 samples"), HasSubstr("data.classes"),
                    Not(HasSubstr("\n"))));
  EXPECT_THAT(error_of([&] {
                open({0, std::numeric_limits<std::int64_t>::max(), 1});
              }),
              HasSubstr("sample 1 has the label 9223372036854775807"));
}

TEST_F(LabelFiles, MoreClassesThanSamplesAskForTheirNumber) {
  EXPECT_THAT(error_of([&] { open({0, 3, 1}); }), HasSubstr("data.classes"));
  EXPECT_EQ(open({0, 3, 1}, "classes = 4").sample.classes, 4);
  EXPECT_EQ(open({0, 2, 1}).sample.classes, 3);
}

TEST_F(LabelFiles, LabelsThatAreAllTheSameAskForTheNumberOfClasses) {
  EXPECT_THAT(error_of([&] {
                open({0, 0, 0});
              }),
              HasSubstr("every answer would be right"));
  EXPECT_EQ(open({0, 0, 0}, "classes = 2").sample.classes, 2);
}

TEST_F(LabelFiles, TheLineSaysWhichLabelsThereAre) {
  EXPECT_THAT(found_line(open({0, 1, 1, 2, 2, 2})),
              AllOf(HasSubstr("3 classes; inputs: F32"),
                    HasSubstr("train: labels 0 to 2, 1 to 3 each")));
  EXPECT_THAT(found_line(open({1, 2, 3, 1, 2, 3})),
              HasSubstr("labels 1 to 3, 2 each; 1 of 4 classes without a "
                        "sample"));
}

TEST_F(LabelFiles, TheLineSaysWhereTrainingAndTestAreTheSameFile) {
  EXPECT_THAT(found_line(open({0, 1, 1})),
              HasSubstr("train and test are the same file"));
}

}  // namespace sluice::label_counts_test
