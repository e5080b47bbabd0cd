#include "experiments/data/files/sub_words.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/files/tokenizer_file.h"
#include "lib/base/error.h"
#include "tests/experiments/data/data_test_files.h"
#include "tests/experiments/data/manual_text.h"

#ifdef SLUICE_SENTENCEPIECE
#include <unordered_map>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#endif

namespace sluice::sub_words_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SubWordTokens : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_sentencepiece()) GTEST_SKIP() << "this build has no sentencepiece";
  }

  static std::string trained(const std::string& text, const char* kind) {
    return train_sub_words(text, {.vocabulary = 320, .kind = kind}, "text");
  }
  static std::string decoded(const SubWords& words,
                             const std::vector<std::int64_t>& tokens) {
    std::string text;
    for (const std::int64_t token : tokens) text += words.text_of(token);
    return text;
  }
};

TEST_F(SubWordTokens, AreFewerThanBytesAndGiveTheTextBack) {
  const std::string text = manual_text(300);
  for (const char* kind : {"unigram", "bpe"}) {
    const SubWords words(trained(text, kind), "text");
    EXPECT_EQ(words.vocabulary(), 320);
    const std::vector<std::int64_t> tokens = words.encode(text);
    EXPECT_LT(tokens.size(), text.size() * 3 / 4) << kind;
    EXPECT_EQ(decoded(words, tokens), text) << kind;
  }
}

TEST_F(SubWordTokens, SubWordTokensOfWhatTheTokenizerHasNeverSeenAreBytes) {
  const SubWords words(trained(manual_text(300), "unigram"), "text");
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {"\xd0\xba\xd0\xbb\n"sv, "\t  two  spaces \r\n"sv, "a\0b"sv, "\n\n"sv,
        ""sv})
    EXPECT_EQ(decoded(words, words.encode(text)), text);
}

TEST_F(SubWordTokens, FollowFromTheTextTheVocabularyAndTheKind) {
  const std::string text = manual_text(300);
  const std::string model = trained(text, "unigram");
  EXPECT_EQ(trained(text, "unigram"), model);
  EXPECT_NE(trained(text, "bpe"), model);
  EXPECT_NE(trained(manual_text(200), "unigram"), model);
  EXPECT_NE(train_sub_words(text, {.vocabulary = 321}, "text"), model);
}

TEST_F(SubWordTokens,
       SubWordTokensOfAVocabularyThatTheTextCannotFillAreRefused) {
  const auto with = [](std::int64_t vocabulary) {
    return error_of([&] {
      train_sub_words(manual_text(300), {.vocabulary = vocabulary}, "a.txt");
    });
  };
  EXPECT_THAT(with(10'000), AllOf(HasSubstr("a.txt"), HasSubstr("10000"),
                                  HasSubstr("too high"), Not(HasSubstr("\n"))));
  EXPECT_THAT(with(100), AllOf(HasSubstr("smaller than"), HasSubstr("100")));
}

#ifdef SLUICE_SENTENCEPIECE

/// A tokenizer as sentencepiece makes it by default: with rules of
/// normalization, and without bytes.
std::string plain_model() {
  struct Sentences final : sentencepiece::SentenceIterator {
    explicit Sentences(std::string text) : rest(std::move(text)) { Next(); }
    bool done() const override { return is_done; }
    void Next() override {
      is_done = rest.empty();
      line = rest.substr(0, rest.find('\n'));
      rest.erase(0, line.size() + 1);
    }
    const std::string& value() const override { return line; }
    sentencepiece::util::Status status() const override { return {}; }

    std::string rest;
    std::string line;
    bool is_done = false;
  };
  Sentences sentences(manual_text(300));
  const std::unordered_map<std::string, std::string> arguments = {
      {"vocab_size", "60"}, {"num_threads", "1"}, {"minloglevel", "2"}};
  std::string model;
  EXPECT_TRUE(
      sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &model)
          .ok());
  return model;
}

TEST_F(SubWordTokens, AreThoseThatTheLibraryGivesForEachLine) {
  for (const std::string& model :
       {trained(manual_text(300), "unigram"), plain_model()}) {
    const SubWords words(model, "text");
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
    EXPECT_EQ(words.vocabulary(), library.GetPieceSize());
    std::vector<std::int64_t> expected;
    for (const char* line :
         {"the name of a socket\n", "  \xef\xac\x81le\n", "is \xd0\xba"}) {
      const std::vector<int> ids = library.EncodeAsIds(line);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(words.encode("the name of a socket\n  \xef\xac\x81le\nis "
                           "\xd0\xba"),
              expected);
    EXPECT_GT(expected.size(), 5U);
  }
}

TEST_F(SubWordTokens,
       SubWordTokensOfADamagedFileAreRefusedInOneLineOrEndInItsVocabulary) {
  const std::string model = plain_model();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 120; ++i) {
    std::string damaged = model;
    // In turns a bit of it is another one, or its end is missing.
    const std::size_t at = (i * 7919 + i * i * 31) % model.size();
    if (i % 4 == 0)
      damaged.resize(at);
    else
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << i % 8));
    try {
      const SubWords words(damaged, "a.model");
      for (const std::int64_t token :
           words.encode("the \xef\xac\x81le of \xe2\x91\xa0 (A)\n"))
        EXPECT_LT(token, words.vocabulary());
    } catch (const UserError& error) {
      ++refused;
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("a.model"), Not(HasSubstr("\n"))));
    }
  }
  EXPECT_GT(refused, 25U);
}

#endif

/// The bytes of a model with nothing but such rules: a double array of these
/// units, and texts.
std::string model_of_rules(const std::vector<std::uint32_t>& units,
                           const std::string& texts) {
  const auto field = [](int number, const std::string& bytes) {
    std::string all(1, static_cast<char>(number << 3 | 2));
    std::size_t size = bytes.size();
    for (; size >= 0x80; size >>= 7)
      all += static_cast<char>((size & 0x7f) | 0x80);
    return all + static_cast<char>(size) + bytes;
  };
  const auto size = static_cast<std::uint32_t>(units.size() * sizeof units[0]);
  std::string map(sizeof size + size, '\0');
  std::memcpy(map.data(), &size, sizeof size);
  std::memcpy(map.data() + sizeof size, units.data(), size);
  return field(3, field(2, map + texts));
}

constexpr std::uint32_t kLeaf = 1U << 8;
constexpr std::uint32_t kValue = 1U << 31;

/// An array of the one word "a", which stands for the text at `value`: unit 0
/// leads to 256 ^ 'a', and that one to its result.
std::vector<std::uint32_t> one_word(std::uint32_t value) {
  std::vector<std::uint32_t> units(1024, kValue);  // of no label
  units[0] = 256U << 10;
  const std::uint32_t a = 256U ^ 'a';
  units[a] = (512U ^ a) << 10 | kLeaf | 'a';
  units[512] = kValue | value;
  return units;
}

std::string refusal_of(const std::string& model) {
  try {
    check_tokenizer_file(model, "a.model");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(TokenizerFile, HasRulesWhoseSearchesAndResultsStayWithinIt) {
  const std::string texts("b\0c\0", 4);
  EXPECT_EQ(refusal_of(model_of_rules(one_word(2), texts)), "");
  EXPECT_THAT(refusal_of(model_of_rules(one_word(4), texts)),
              AllOf(HasSubstr("a.model"), HasSubstr("point out of it")));
  EXPECT_NE(refusal_of(model_of_rules(one_word(0), "no zero at the end")), "");
  std::vector<std::uint32_t> outside = one_word(2);
  outside[0] = 1024U << 10;
  EXPECT_NE(refusal_of(model_of_rules(outside, texts)), "");
  std::vector<std::uint32_t> few = one_word(2);
  few.resize(700);  // a search for 'a' and another byte ends behind it
  EXPECT_NE(refusal_of(model_of_rules(few, texts)), "");
}

TEST(TokenizerFile, HasRulesOfNoMoreThan32NestedWords) {
  // "a", "aa", "aaa", ...: the unit of each leads on to that of the next.
  const auto words = [](std::uint32_t count) {
    std::vector<std::uint32_t> units((count + 2) * 256, kValue);
    units[0] = 256U << 10;
    for (std::uint32_t i = 1; i <= count; ++i) {
      const std::uint32_t at = (i * 256) ^ 'a';
      units[at] = (at ^ ((i + 1) * 256)) << 10 | kLeaf | 'a';
      units[(i + 1) * 256] = kValue;
    }
    return model_of_rules(units, std::string("b\0", 2));
  };
  EXPECT_EQ(refusal_of(words(32)), "");
  EXPECT_NE(refusal_of(words(33)), "");
}

TEST(TokenizerFile, HasNoWordsWithoutEnd) {
  std::vector<std::uint32_t> ring = one_word(0);
  const std::uint32_t a = 256U ^ 'a';
  ring[a] = (256U ^ a) << 10 | 'a';  // back to where 'a' leads to itself
  EXPECT_NE(refusal_of(model_of_rules(ring, std::string("b\0", 2))), "");
}

TEST(TokenizerFile, IsRefusedInOneLineWhereItIsNone) {
  for (const char* text : {"a tokenizer", "\xff\xff\xff\xff", "\x1a\x7f"})
    EXPECT_THAT(refusal_of(text),
                AllOf(HasSubstr("a.model"), HasSubstr("damaged"),
                      Not(HasSubstr("\n"))));
}

TEST(TokenizerFile, WithoutTheLibraryIsRefusedWithTheRemedy) {
  if (has_sentencepiece()) GTEST_SKIP() << "this build has sentencepiece";
  EXPECT_THAT(error_of([] { SubWords("", "a.model"); }),
              HasSubstr("libsentencepiece-dev"));
}

}  // namespace sluice::sub_words_test
