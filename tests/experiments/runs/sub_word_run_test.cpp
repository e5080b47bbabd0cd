// A language model of sub-words, through the real program.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <numbers>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/files/sha256.h"
#include "experiments/data/files/sub_words.h"
#include "experiments/runs/folder/run_reader.h"
#include "lib/metrics/records.h"
#include "tests/experiments/data/manual_text.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::sub_word_run_test {

using testing::AllOf;
using testing::HasSubstr;

class SubWordRun : public Program {
 protected:
  void SetUp() override {
    if (!has_sentencepiece()) GTEST_SKIP() << "this build has no sentencepiece";
    write("a.txt", manual_text(300));
  }

  std::string config(const std::string& data = "vocabulary = 320") const {
    return fmt::format(
        "turns = 24\nbatch_size = 8\nthreads = 1\nblocks = 2\n"
        "optimizer = {{name = 'adam', lr = 5e-3}}\n"
        "boundary = {{policy = 'delayed_gradient'}}\n"
        "model = {{name = 'gpt', layers = 2, width = 16, heads = 2}}\n"
        "data = {{name = 'text', file = '{}', context = 16, validation = 0.2, "
        "tokenizer = 'sentencepiece', cache = '{}', {}}}\n",
        path("a.txt"), path("cache"), data);
  }
  std::string succeed(const std::string& arguments) const {
    const Outcome outcome = sluice(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return outcome.text;
  }
  std::string fail(const std::string& arguments) const {
    const Outcome outcome = sluice(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    return outcome.text;
  }
};

TEST_F(SubWordRun, LearnsAndTellsBitsPerByteWithTheSameBitsOnEveryEngine) {
  const std::string file = write("a.toml", config());
  succeed("run " + file + " --dir " + path("run"));
  const auto evaluations = RunReader(path("run")).next<records::Evaluation>();
  ASSERT_GE(evaluations.size(), 1U);
  const records::Evaluation& last = evaluations.back();
  EXPECT_LT(last.loss, std::log(320.0)) << "no better than a guess";
  // Bits per byte from the text's bytes and tokens.
  const std::string text = manual_text(300);
  const std::size_t cut = text.find('\n', text.size() * 4 / 5 - 1) + 1;
  const SubWords words(slurp(path("run/tokenizer.model")), "run");
  const double bytes_per_token =
      static_cast<double>(text.size() - cut) /
      static_cast<double>(words.encode(text.substr(cut)).size());
  ASSERT_TRUE(last.bits_per_byte.has_value());
  EXPECT_NEAR(*last.bits_per_byte,
              last.loss / std::numbers::ln2 / bytes_per_token, 1e-6);
  EXPECT_GT(bytes_per_token, 1.5);
  succeed("verify " + file + " --turns 4");
}

TEST_F(SubWordRun, IsSampledEvaluatedExportedAndContinued) {
  succeed("run " + write("a.toml", config()) + " --dir " + path("run"));
  EXPECT_THAT(succeed("sample " + path("run") +
                      " --prompt 'the name of' --length 20 --seed 1"),
              HasSubstr("the name of"));
  EXPECT_THAT(succeed("eval " + path("run")), HasSubstr("test loss"));
  succeed("export " + path("run"));
  // From a cache that was emptied, too: the same tokenizer is trained again.
  const std::string hash = sha256_of_file(path("run/tokenizer.model"));
  std::filesystem::remove_all(path("cache"));
  succeed("run --resume " + path("run") + " turns=30");
  EXPECT_EQ(sha256_of_file(path("run/tokenizer.model")), hash);
  EXPECT_THAT(slurp(path("run/config.toml")), HasSubstr(hash));
  EXPECT_THAT(slurp(path("run/run.json")), HasSubstr(hash));
}

TEST_F(SubWordRun, IsContinuedWithItsOwnTokenizerOnly) {
  succeed("run " + write("a.toml", config()) + " --dir " + path("run"));
  // Another text of the same length, which trains another tokenizer.
  std::string text = manual_text(300);
  for (std::size_t at = text.find("socket"); at != text.npos;
       at = text.find("socket", at))
    text.replace(at, 6, "hammer");
  write("a.txt", text);
  const std::string resume = "run --resume " + path("run") + " turns=30";
  EXPECT_THAT(fail(resume),
              AllOf(HasSubstr("was made with"), HasSubstr("tokenizer.model")));
  // With the run's own tokenizer it is still another text.
  EXPECT_THAT(
      fail(resume + " data.tokenizer_model=" + path("run/tokenizer.model")),
      HasSubstr("the data are not those"));
  write("a.txt", manual_text(300));
  succeed(resume);
}

TEST_F(SubWordRun, SubWordRunOfADamagedTokenizerIsRefusedInOneLine) {
  const std::string model = write("my.model", "none");
  EXPECT_THAT(
      fail("run " +
           write("a.toml", config("tokenizer_model = '" + model + "'")) +
           " --dir " + path("run")),
      AllOf(HasSubstr("my.model"), HasSubstr("no tokenizer")));
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST(TextOfSubWords, WithoutTheLibraryIsRefusedWithTheRemedy) {
  if (has_sentencepiece()) GTEST_SKIP() << "this build has sentencepiece";
  const Outcome outcome = sluice(
      "config data.name=text data.file=/dev/null data.tokenizer=sentencepiece");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("libsentencepiece-dev"));
}

}  // namespace sluice::sub_word_run_test
