#include "experiments/data/sets/tokens.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/data/order/sample_source.h"
#include "tests/experiments/data/packed_test_files.h"

namespace sluice::tokens_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Tokens : public DataFolder {
 protected:
  DataSet open(const std::string& options) const {
    const ConfigNode config =
        parse_toml("folder = \"corpus\"\n" + options, "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_tokens(fields);
    fields.finish();
    return make(root());
  }

  /// Token i of a file is first + i.
  template <class Token>
  void write_tokens(const std::string& name, std::size_t count,
                    Token first = 0) const {
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<Token>(first + i));
    write("corpus/" + name, bytes_of_numbers(tokens));
  }

  void write_both() const {
    write_tokens<std::uint16_t>("train.bin", 103);
    write_tokens<std::uint16_t>("val.bin", 41, 200);
  }
};

TEST_F(Tokens, LabelsAreTheTokensThatFollow) {
  write_both();
  const DataSet data = open("context = 8");
  EXPECT_TRUE(data.sample.is_text);
  EXPECT_EQ(data.sample.classes, 241) << "the largest of both files, and 1";
  EXPECT_EQ(data.sample.shape, SampleShape{8});
  const Batch batch = all_of(data.test);
  EXPECT_TRUE(
      at::equal(batch.inputs, at::arange(200, 240, at::kLong).view({5, 8})));
  EXPECT_TRUE(at::equal(batch.labels, batch.inputs + 1));
}

TEST_F(Tokens, AnEpochHasEachWindowOnceFromAnOffsetOfItsOwn) {
  write_both();
  const DataSet data = open("context = 8");
  EXPECT_EQ(data.train.size(), 103 / 8 - 1);
  SampleSource source(data.train.samples(), {.batch_size = 4, .seed = 7});
  std::set<std::int64_t> offsets;
  for (std::int64_t epoch = 0; epoch < 12; ++epoch) {
    std::set<std::int64_t> places;
    for (std::int64_t i = 0; i < source.batches_per_epoch(); ++i) {
      const Batch batch = source.batch(epoch * source.batches_per_epoch() + i);
      for (std::int64_t n = 0; n < batch.inputs.size(0); ++n)
        places.insert(batch.inputs[n][0].item<std::int64_t>());
    }
    const std::int64_t offset = *places.begin();
    EXPECT_LT(offset, 8);
    std::set<std::int64_t> expected;
    for (std::int64_t i = 0; i < data.train.size(); ++i)
      expected.insert(offset + 8 * i);
    EXPECT_EQ(places, expected);
    offsets.insert(offset);
  }
  EXPECT_GT(offsets.size(), 3U);
}

TEST_F(Tokens, BatchTIsAPureFunctionOfTheSeedAndT) {
  write_both();
  const DataSet data = open("context = 8");
  const OrderOptions order = {.batch_size = 4, .seed = 7};
  SampleSource forth(data.train.samples(), order);
  std::vector<at::Tensor> seen;
  for (std::int64_t t = 0; t < 9; ++t) seen.push_back(forth.batch(t).inputs);
  SampleSource back(open("context = 8").train.samples(), order);
  for (std::int64_t t = 8; t >= 0; --t)
    EXPECT_TRUE(
        at::equal(back.batch(t).inputs, seen[static_cast<std::size_t>(t)]));
  SampleSource other(data.train.samples(), {.batch_size = 4, .seed = 8});
  EXPECT_FALSE(at::equal(other.batch(0).inputs, seen[0]));
}

TEST_F(Tokens, TokensOfFourBytesAreReadAsSuch) {
  write_tokens<std::uint32_t>("train.bin", 40, 100'000);
  write_tokens<std::uint32_t>("val.bin", 9, 70'000);
  const DataSet data = open("context = 8\ndtype = \"uint32\"");
  EXPECT_EQ(data.sample.classes, 100'040);
  EXPECT_EQ(all_of(data.test).labels[0][7].item<std::int64_t>(), 70'008);
}

TEST_F(Tokens, WithATestFileChooseByTheValidationFile) {
  write_both();
  write_tokens<std::uint16_t>("last.bin", 17, 50);
  const DataSet data = open("context = 8\ntest = \"last.bin\"");
  EXPECT_EQ(all_of(data.test).inputs[0][0].item<std::int64_t>(), 50);
  EXPECT_EQ(all_of(data.validation).inputs[0][0].item<std::int64_t>(), 200);
  EXPECT_FALSE(open("context = 8").has_validation());
}

TEST_F(Tokens, SeveralFilesAreOneRowOfTokens) {
  write_tokens<std::uint16_t>("all.bin", 303);
  write_tokens<std::uint16_t>("part_0.bin", 11);
  write_tokens<std::uint16_t>("part_1.bin", 5, 11);
  write_tokens<std::uint16_t>("part_2.bin", 287, 16);
  write_tokens<std::uint16_t>("val.bin", 41, 200);
  const auto samples = [&](const std::string& train) {
    const DataSet data = open("context = 16\ntrain = " + train);
    SampleSource source(data.train.samples(), {.batch_size = 4, .seed = 7});
    std::vector<at::Tensor> all;
    for (std::int64_t t = 0; t < 12; ++t) {
      const Batch batch = source.batch(t);
      all.push_back(batch.inputs);
      all.push_back(batch.labels);
    }
    return at::cat(all);
  };
  const at::Tensor whole = samples("\"all.bin\"");
  EXPECT_TRUE(at::equal(samples("\"part_*.bin\""), whole));
  EXPECT_TRUE(at::equal(samples("\"part_{0..2}.bin\""), whole));
  EXPECT_FALSE(at::equal(samples("[\"part_2.bin\", \"part_?.bin\"]"), whole));
}

TEST_F(Tokens, SeveralFilesAreOneClauseOfWhatIsFound) {
  write_both();
  write_tokens<std::uint16_t>("train_2.bin", 20);
  EXPECT_THAT(open("context = 8\ntrain = \"train*.bin\"").found(),
              testing::Contains(
                  HasSubstr("train.bin and 1 more file: 123 tokens (uint16)")));
}

TEST_F(Tokens, FileInTwoSplitsIsSaid) {
  write_both();
  EXPECT_THAT(open("context = 8\ntrain = \"*.bin\"").found(),
              testing::Contains("a file more than once, in a list or in splits "
                                "(val.bin)"));
  EXPECT_THAT(open("context = 8").found(),
              testing::Each(Not(HasSubstr("more than once"))));
}

TEST_F(Tokens, FileWithoutATokenIsRefused) {
  write_both();
  write("corpus/part.bin", {});
  EXPECT_THAT(error_of([&] {
                open("context = 8\ntrain = [\"train.bin\", \"part.bin\"]");
              }),
              HasSubstr("part.bin: has no token"));
}

TEST_F(Tokens, FileThatARangeLacksIsRefused) {
  write_both();
  EXPECT_THAT(
      error_of([&] { open("context = 8\ntrain = \"train_{00..12}.bin\""); }),
      AllOf(HasSubstr("train_00.bin"), Not(HasSubstr("\n"))));
}

TEST_F(Tokens, AboveTheVocabularyAreRefusedWhenTheFileIsOpened) {
  write_both();
  EXPECT_THAT(error_of([&] { open("context = 8\nvocabulary = 220"); }),
              AllOf(HasSubstr("val.bin: has the token 240"),
                    HasSubstr("data.vocabulary"), Not(HasSubstr("\n"))));
  EXPECT_EQ(open("context = 8\nvocabulary = 241").sample.classes, 241);
}

TEST_F(Tokens, AboveTheVocabularyAreRefusedWithTheirPlaceWhereTheyAreRead) {
  write_both();
  const TokenFile file(path("corpus/val.bin"), 2);
  std::vector<std::int64_t> tokens(41);
  EXPECT_THAT(error_of([&] { file.read(0, 220, tokens); }),
              AllOf(HasSubstr("val.bin: token 20 is 220"),
                    HasSubstr("data.vocabulary"), Not(HasSubstr("\n"))));
}

TEST_F(Tokens, TokensOfAFileThatIsDamagedOrTooShortAreRefused) {
  write_both();
  EXPECT_THAT(error_of([&] { open("context = 41"); }),
              HasSubstr("val.bin: has 41 tokens, too few for windows"));
  write("corpus/val.bin", Bytes(33));
  EXPECT_THAT(error_of([&] { open("context = 8"); }),
              HasSubstr("no whole number of tokens of 2 bytes"));
  std::filesystem::remove(path("corpus/val.bin"));
  EXPECT_THAT(error_of([&] { open("context = 8"); }), HasSubstr("no file"));
  write_gz("corpus/val.bin.gz", Bytes(64));
  EXPECT_THAT(error_of([&] { open("context = 8"); }), HasSubstr("gunzip it"));
}

TEST_F(Tokens, TokensOfAFileThatShrinksUnderARunAreAnErrorAndNoCrash) {
  write_both();
  const DataSet data = open("context = 8");
  EXPECT_EQ(all_of(data.test).inputs.size(0), 5);
  std::filesystem::resize_file(path("corpus/val.bin"), 20);
  EXPECT_THAT(error_of([&] { all_of(data.test); }),
              HasSubstr("val.bin: ends at byte 20"));
}

TEST_F(Tokens, TokensOfAFileLargerThanTheMemoryAreReadWindowByWindow) {
  write_both();
  // A file with a hole: it takes no room on the disk, and 64 GiB in memory.
  const std::string train = path("corpus/train.bin");
  std::filesystem::resize_file(train, std::uintmax_t{1} << 36);
  {
    std::fstream file(train, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(std::streamoff{1} << 35);
    const char seven[] = {7, 0};
    file.write(seven, sizeof seven);
  }
  const DataSet data = open(
      "context = 1024\nvocabulary = 300\n"
      "validation = \"train.bin\"");
  EXPECT_EQ(data.train.size(), (std::int64_t{1} << 35) / 1024 - 1);
  const std::int64_t middle = (std::int64_t{1} << 34) / 1024;
  const Batch batch = data.test.samples()->batch({&middle, 1}, {});
  EXPECT_EQ(batch.inputs[0][0].item<std::int64_t>(), 7);
  EXPECT_EQ(batch.inputs.sum().item<std::int64_t>(), 7);
  EXPECT_THAT(fingerprint_of(data).literal(), HasSubstr("64 pieces"));
}

}  // namespace sluice::tokens_test
