#include "experiments/data/sets/text.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/order/sample_source.h"
#include "lib/base/config.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_text_test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Positions = std::vector<std::int64_t>;

class Text : public DataFolder {
 protected:
  std::string write_text(const std::string& text) const {
    return write("a.txt", Bytes(text.begin(), text.end()));
  }
  /// 100 bytes: the digits over and over.
  DataSet digits(std::int64_t context) const {
    std::string text;
    while (text.size() < 100) text += "0123456789";
    return open_text(write_text(text), {.context = context, .validation = 0.2});
  }
};

Positions epoch_of(SampleSource& source, std::int64_t epoch) {
  Positions all;
  const std::int64_t batches = source.batches_per_epoch();
  for (std::int64_t t = epoch * batches; t < (epoch + 1) * batches; ++t) {
    const Positions batch = source.positions(t);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST_F(Text, TokensAreThePlacesOfTheBytesAmongTheSortedDistinctOnes) {
  // The vocabulary is "\n", "a", "b", "z" and the bytes c3 and a9 of an é.
  const DataSet text = open_text(write_text("zab\xc3\xa9\nzab\xc3\xa9\n"),
                                 {.context = 2, .validation = 0.5});
  EXPECT_EQ(text.sample.classes, 6);
  EXPECT_EQ(text.sample.shape, SampleShape{2});
  EXPECT_TRUE(text.sample.is_text);
  const Batch batch = text.test.samples()->batch(Positions{0, 1}, {});
  EXPECT_TRUE(at::equal(batch.inputs,
                        at::tensor({3, 1, 2, 5}).view({2, 2}).to(at::kLong)));
  EXPECT_TRUE(at::equal(batch.labels,
                        at::tensor({1, 2, 5, 4}).view({2, 2}).to(at::kLong)));
}

TEST_F(Text, AVocabularyIsThatOfTheWholeFile) {
  EXPECT_EQ(open_text(write_text("aaaaaaaaaaaaaaab"),
                      {.context = 2, .validation = 0.3})
                .sample.classes,
            2);
}

TEST_F(Text, ASampleIsTheWindowAtItsPositionAndLabelsAreTheNextTokens) {
  const DataSet text = digits(7);
  SampleSource source(text.train.samples(), {.batch_size = 3, .seed = 5});
  const Batch batch = source.batch(4);
  const Positions starts = source.positions(4);
  ASSERT_EQ(batch.inputs.size(0), std::ssize(starts));
  // Digit p % 10 is the token of byte p.
  const at::Tensor at =
      at::tensor(starts).view({-1, 1}) + at::arange(7).view({1, 7});
  EXPECT_TRUE(at::equal(batch.inputs, at.remainder(10)));
  EXPECT_TRUE(at::equal(batch.labels, (at + 1).remainder(10)));
}

TEST_F(Text, AnEpochHasItsWindowsOnceOneAfterTheOther) {
  const DataSet text = digits(7);
  SampleSource source(text.train.samples(), {.batch_size = 3, .seed = 5});
  Positions starts = epoch_of(source, 2);
  EXPECT_FALSE(std::is_sorted(starts.begin(), starts.end()));
  std::sort(starts.begin(), starts.end());
  ASSERT_EQ(std::ssize(starts), text.train.size());
  for (std::size_t i = 1; i < starts.size(); ++i)
    EXPECT_EQ(starts[i], starts[i - 1] + 7);
}

TEST_F(Text, TrainingWindowsMoveBetweenEpochsByLessThanAWindow) {
  const DataSet text = digits(7);
  SampleSource source(text.train.samples(), {.batch_size = 3, .seed = 5});
  std::set<std::int64_t> offsets;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    const Positions starts = epoch_of(source, epoch);
    offsets.insert(*std::min_element(starts.begin(), starts.end()));
    // The last token's label is still in the training part, of 80 bytes.
    EXPECT_LT(*std::max_element(starts.begin(), starts.end()) + 7, 80);
  }
  EXPECT_THAT(offsets, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST_F(Text, FixedWindowsOfTrainingStandStillAndAreShuffled) {
  std::string text;
  while (text.size() < 100) text += "0123456789";
  const std::string path = write_text(text);
  TextOptions options{.context = 10, .validation = 0.2, .are_fixed = true};
  const DataSet fixed = open_text(path, options);
  options.are_fixed = false;
  EXPECT_FALSE(fixed.varies);
  EXPECT_TRUE(open_text(path, options).varies);
  SampleSource source(fixed.train.samples(), {.batch_size = 1, .seed = 3});
  std::set<Positions> orders;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    Positions windows = epoch_of(source, epoch);
    orders.insert(windows);
    std::sort(windows.begin(), windows.end());
    EXPECT_THAT(windows, ElementsAre(0, 10, 20, 30, 40, 50, 60));
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST_F(Text, OffsetsDependOnTheSeed) {
  const auto samples = digits(7).train.samples();
  Positions of_seed_1;
  Positions of_seed_2;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    of_seed_1.push_back(samples->position(0, {1, epoch}));
    of_seed_2.push_back(samples->position(0, {2, epoch}));
  }
  EXPECT_NE(of_seed_1, of_seed_2);
}

TEST_F(Text, EvaluationWindowsStandStillAtTheEndOfTheFile) {
  const DataSet text = digits(7);
  EXPECT_EQ(text.test.size(), 2);  // 20 bytes: 2 windows of 7 and a label
  SampleSource source(text.test.samples(),
                      {.batch_size = 2, .shuffled = false});
  EXPECT_THAT(source.positions(0), ElementsAre(80, 87));
  EXPECT_THAT(source.positions(9), ElementsAre(80, 87));
}

TEST_F(Text, ReadsTheWholeTrainingPartWhateverTheOffset) {
  // 2T bytes give one window, which may start anywhere in [0, T).
  const DataSet text = open_text(write_text("01234567abcde"),
                                 {.context = 4, .validation = 0.384});
  EXPECT_EQ(text.train.size(), 1);
  for (std::int64_t epoch = 0; epoch < 30; ++epoch) {
    const Batch batch = text.train.samples()->batch(Positions{0}, {1, epoch});
    EXPECT_LT(batch.labels.max().item<std::int64_t>(), 8);
  }
}

TEST_F(Text, RefusesAFileThatIsTooShortForOneWindow) {
  const std::string path = write_text("0123456789");
  EXPECT_THAT(error_of([&] { open_text(path, {.context = 6}); }),
              AllOf(HasSubstr(path), HasSubstr("training part has 9 bytes"),
                    HasSubstr("need 12"), HasSubstr("data.context")));
  EXPECT_THAT(error_of([&] { open_text(path, {.context = 3}); }),
              AllOf(HasSubstr("validation part has 1 bytes"),
                    HasSubstr("need 4"), HasSubstr("data.validation")));
}

TEST_F(Text, RefusesAnEmptyFile) {
  EXPECT_THAT(error_of([&] { open_text(write_text(""), {}); }),
              HasSubstr("has 0 bytes"));
}

TEST_F(Text, NamesAFileBelowTheRootOrAnAbsoluteOne) {
  const std::string path = write("a.txt", Bytes(100, 'x'));
  for (const std::string& file : {std::string("a.txt"), path}) {
    ConfigNode options;
    options.set("file", {.value = file});
    options.set("context", {.value = std::int64_t{4}});
    Fields fields(&options, "data");
    EXPECT_EQ(configure_text(fields)(root()).sample.classes, 1) << file;
  }
}

TEST_F(Text, SaysThatAFileIsMissing) {
  ConfigNode options;
  options.set("file", {.value = std::string("b.txt")});
  Fields fields(&options, "data");
  const MakeDataSet make = configure_text(fields);
  EXPECT_THAT(error_of([&] { make(root()); }), HasSubstr(root() + "/b.txt"));
}

TEST_F(Text, MustNameAFile) {
  Fields fields(nullptr, "data");
  EXPECT_THAT(error_of([&] { configure_text(fields); }),
              HasSubstr("data.file"));
}

}  // namespace sluice::data_text_test
