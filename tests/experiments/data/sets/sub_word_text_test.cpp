// Texts as sub-words, from the options of a config to windows of tokens.
#include "experiments/data/sets/sub_word_text.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/numbers.h"
#include "experiments/data/files/sha256.h"
#include "experiments/data/files/sub_words.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/data/sets/text.h"
#include "lib/base/files/file.h"
#include "lib/base/files/folder_lock.h"
#include "tests/experiments/data/data_test_files.h"
#include "tests/experiments/data/manual_text.h"

namespace sluice::sub_word_text_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Tokens = std::vector<std::int64_t>;

class SubWordText : public DataFolder {
 protected:
  void SetUp() override {
    if (!has_sentencepiece()) GTEST_SKIP() << "this build has no sentencepiece";
    write_text(manual_text(300));
  }

  void write_text(const std::string& text) const {
    write("a.txt", Bytes(text.begin(), text.end()));
  }
  DataSet open(const std::string& more = "vocabulary = 320\n") const {
    const ConfigNode config = parse_toml(
        "file = \"a.txt\"\ncontext = 16\nvalidation = 0.2\n"
        "tokenizer = \"sentencepiece\"\ncache = \"" +
            path("cache") + "\"\n" + more,
        "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_text(fields);
    fields.finish();
    return make(root());
  }
};

/// The inputs of a split, one window behind the other, and the last label.
Tokens tokens_of(const Split& split) {
  const Batch batch = all_of(split);
  const at::Tensor flat = at::cat(
      {batch.inputs.flatten(), batch.labels.select(1, -1).slice(0, -1)});
  const auto* first = flat.const_data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

/// Where the line begins that byte `share` of the text lies in, or after it.
std::size_t line_at(const std::string& text, double share) {
  const auto place =
      static_cast<std::size_t>(static_cast<double>(text.size()) * share);
  return text.find('\n', place - 1) + 1;
}

TEST_F(SubWordText, IsOfTheTokensOfItsPartsWhichEndAtLineEnds) {
  const std::string text = manual_text(300);
  const DataSet data = open();
  EXPECT_EQ(data.sample.classes, 320);
  EXPECT_TRUE(data.sample.is_text);
  const std::size_t cut = line_at(text, 0.8);
  const SubWords words(
      train_sub_words(text.substr(0, cut), {.vocabulary = 320}, "text"),
      "text");
  Tokens expected = words.encode(text.substr(cut));
  const Tokens found = tokens_of(data.test);
  EXPECT_GT(found.size(), 100U);
  ASSERT_LE(found.size(), expected.size());
  EXPECT_LT(expected.size() - found.size(), 16U) << "a last window";
  expected.resize(found.size());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(data.train.size(),
            std::ssize(words.encode(text.substr(0, cut))) / 16 - 1);
  EXPECT_NEAR(data.bytes_per_token,
              static_cast<double>(text.size() - cut) /
                  static_cast<double>(words.encode(text.substr(cut)).size()),
              1e-12);
}

TEST_F(SubWordText, LabelsAreTheTokensThatFollow) {
  const Batch batch = all_of(open().train);
  EXPECT_TRUE(
      at::equal(batch.inputs.slice(1, 1), batch.labels.slice(1, 0, -1)));
  EXPECT_FALSE(at::equal(batch.inputs, batch.labels));
}

TEST_F(SubWordText, HasATestPartOfItsOwnBehindTheOneThatChooses) {
  const DataSet data = open("vocabulary = 320\ntest = 0.1\n");
  ASSERT_TRUE(data.has_validation());
  const std::string text = manual_text(300);
  Tokens last = data.tokenizer->encode(text.substr(line_at(text, 0.9)));
  const Tokens found = tokens_of(data.test);
  last.resize(found.size());
  EXPECT_EQ(found, last);
  EXPECT_NE(tokens_of(data.validation), found);
}

TEST_F(SubWordText, IsCutIntoTokensOnce) {
  const DataSet first = open();
  const auto written = std::filesystem::last_write_time(first.tokenizer_file);
  const DataSet second = open();
  EXPECT_EQ(second.tokenizer_file, first.tokenizer_file);
  EXPECT_EQ(std::filesystem::last_write_time(second.tokenizer_file), written);
  EXPECT_EQ(tokens_of(second.test), tokens_of(first.test));
  for (const char* other :
       {"vocabulary = 321\n", "vocabulary = 320\ntokenizer_kind = \"bpe\"\n",
        "vocabulary = 320\ntest = 0.1\n"})
    EXPECT_NE(open(other).tokenizer_file, first.tokenizer_file) << other;
  std::filesystem::remove_all(path("cache"));
  EXPECT_EQ(open().tokenizer_sha256, first.tokenizer_sha256);
}

TEST_F(SubWordText, RemovesWhatKilledProcessesHaveBegunInItsCache) {
  const std::filesystem::path finished =
      std::filesystem::path(open().tokenizer_file).parent_path();
  const auto begun_by = [&](const char* process) {
    const std::string folder = finished.string() + "." + process;
    std::filesystem::create_directory(folder);
    write_file_atomically(folder + "/train.bin", [](std::ostream&) {});
    return folder;
  };
  const std::string killed = begun_by("12-34");
  const std::string living = begun_by("56-78");
  const FolderLock lock(living, {.is_shared = false});
  for (const std::string& folder : {killed, living, finished.string()})
    std::filesystem::last_write_time(
        folder,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  open();
  EXPECT_FALSE(std::filesystem::exists(killed));
  EXPECT_TRUE(std::filesystem::exists(living));
  EXPECT_TRUE(std::filesystem::exists(finished));
}

TEST_F(SubWordText, LeavesNothingButTheTokenizerAndTheTokens) {
  const std::filesystem::path folder =
      std::filesystem::path(open().tokenizer_file).parent_path();
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("test.bin", "tokenizer.model",
                                          "train.bin", "validation.bin"));
  const std::filesystem::directory_iterator all(folder.parent_path());
  EXPECT_EQ(std::distance(begin(all), end(all)), 1);
}

TEST_F(SubWordText, TakesATokenizerThatIsGiven) {
  const std::string model =
      train_sub_words(manual_text(100), {.vocabulary = 310}, "text");
  write("my.model", Bytes(model.begin(), model.end()));
  const DataSet data = open("tokenizer_model = \"my.model\"\n");
  EXPECT_EQ(data.sample.classes, 310);
  EXPECT_EQ(data.tokenizer_sha256, sha256_of(model));
  EXPECT_NE(data.tokenizer_sha256, open().tokenizer_sha256);
  EXPECT_THAT(error_of([&] {
                open("tokenizer_model = \"my.model\"\nvocabulary = 320\n");
              }),
              AllOf(HasSubstr("data.vocabulary = 320"), HasSubstr("has 310")));
}

TEST_F(SubWordText, WantsTheTokenizerThatARunWasMadeWith) {
  const std::string hash = open().tokenizer_sha256;
  EXPECT_EQ(hash.size(), 64U);
  const std::string keys =
      "vocabulary = 320\ntokenizer_sha256 = \"" + hash + "\"\n";
  EXPECT_EQ(open(keys).tokenizer_sha256, hash);
  write_text(manual_text(200));  // which trains another one
  EXPECT_THAT(error_of([&] { open(keys); }),
              AllOf(HasSubstr("was made with"), HasSubstr(hash.substr(0, 12)),
                    HasSubstr("data.tokenizer_model"), Not(HasSubstr("\n"))));
}

TEST_F(SubWordText, IsToldFromAnotherCopyByTextAndTokenizer) {
  const std::string text = fingerprint_of(open()).literal();
  EXPECT_THAT(text, AllOf(HasSubstr("a.txt"), HasSubstr("tokenizer.model")));
  EXPECT_NE(fingerprint_of(open("vocabulary = 321\n")).literal(), text);
}

TEST_F(SubWordText, SubWordTextOfADamagedTokenizerOrTooLittleTextIsRefused) {
  write("my.model", Bytes{'n', 'o', 'n', 'e'});
  EXPECT_THAT(error_of([&] { open("tokenizer_model = \"my.model\"\n"); }),
              AllOf(HasSubstr("my.model"), HasSubstr("no tokenizer"),
                    Not(HasSubstr("\n"))));
  EXPECT_FALSE(std::filesystem::exists(path("cache/sub-words")));
  EXPECT_THAT(error_of([&] { open("vocabulary = 100000\n"); }),
              HasSubstr("can be trained"));
  write_text("");
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("is empty"));
}

TEST_F(SubWordText, ThatIsOneLineIsCutBetweenCharacters) {
  std::string text = manual_text(300);
  for (char& byte : text)
    if (byte == '\n') byte = ' ';
  write_text(text);
  const DataSet data = open();
  const Tokens found = tokens_of(data.test);
  const std::string decoded = data.tokenizer->text_of(found.at(0)) +
                              data.tokenizer->text_of(found.at(1));
  EXPECT_NE(text.find(decoded), text.npos);
}

TEST(NumbersOfText, TextOfBytesHasTheNumbersOfOlderConfigs) {
  const auto numbers = [](const std::string& data) {
    return numbers_of(parse_toml("data = {name = \"text\"" + data + "}", "a"));
  };
  const ConfigNode before = numbers("");
  EXPECT_EQ(numbers(", tokenizer = \"bytes\", tokenizer_model = \"\", "
                    "tokenizer_sha256 = \"\", tokenizer_kind = \"unigram\", "
                    "vocabulary = 0, cache = \"\""),
            before);
  const ConfigNode words = numbers(
      ", tokenizer = \"sentencepiece\", tokenizer_sha256 = \"a\", cache = "
      "\"x\", tokenizer_model = \"y\"");
  EXPECT_FALSE(words == before);
  EXPECT_EQ(words, numbers(", tokenizer = \"sentencepiece\", tokenizer_sha256 "
                           "= \"a\", cache = \"z\""));
  EXPECT_FALSE(words == numbers(", tokenizer = \"sentencepiece\", "
                                "tokenizer_sha256 = \"b\""));
}

}  // namespace sluice::sub_word_text_test
