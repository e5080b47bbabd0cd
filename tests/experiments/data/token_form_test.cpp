// Token files of another kind than they are read as.
#include "experiments/data/files/token_form.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/found.h"
#include "experiments/data/sets/tokens.h"
#include "tests/experiments/data/packed_test_files.h"

namespace sluice::token_form_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Tokens that are as frequent as words are: the n-th as 1 / n.
template <class Token>
std::vector<Token> words(std::size_t count, std::size_t vocabulary) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < vocabulary; ++i)
    weights.push_back(1.0 / static_cast<double>(i + 1));
  std::discrete_distribution<std::size_t> draw(weights.begin(), weights.end());
  std::mt19937 random(7);
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<Token>(draw(random)));
  return tokens;
}

class TokenForms : public DataFolder {
 protected:
  /// One file for training and evaluations.
  DataSet open(const Bytes& file, const std::string& options = "") const {
    write("corpus/a.bin", file);
    const ConfigNode config = parse_toml(
        "folder = \"corpus\"\ntrain = \"a.bin\"\nvalidation = \"a.bin\"\n"
        "context = 8\n" +
            options,
        "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure_tokens(fields);
    fields.finish();
    return make(root());
  }
  std::string refusal(const Bytes& file,
                      const std::string& options = "") const {
    return error_of([&] { open(file, options); });
  }
  std::string refusal_as(const Bytes& file, const std::string& dtype) const {
    return refusal(file, "dtype = \"" + dtype + "\"");
  }
};

auto one_line_that_says(const std::string& what) {
  return AllOf(HasSubstr("a.bin: "), HasSubstr(what), Not(HasSubstr("\n")));
}

/// llm.c's header: what the file is, a version, and the number of tokens.
Bytes with_llmc_header(std::int32_t magic, std::int32_t version,
                       std::size_t count, const Bytes& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(count);
  Bytes file = bytes_of_numbers(header);
  file.insert(file.end(), tokens.begin(), tokens.end());
  return file;
}

TEST_F(TokenForms, FourBytesReadAsTwoAreRefused) {
  const Bytes small = bytes_of_numbers(words<std::uint32_t>(2000, 60));
  const Bytes gpt2 = bytes_of_numbers(words<std::uint32_t>(2000, 50257));
  const Bytes large = bytes_of_numbers(words<std::uint32_t>(4000, 100'000));
  EXPECT_THAT(refusal(small), one_line_that_says("looks like uint32"));
  EXPECT_THAT(refusal(gpt2), one_line_that_says("data.dtype = \"uint32\""));
  EXPECT_THAT(refusal(large), one_line_that_says("looks like uint32"));
  EXPECT_THAT(refusal(gpt2, "vocabulary = 50257"), HasSubstr("uint32"));
  EXPECT_EQ(open(gpt2, "dtype = \"uint32\"").sample.classes,
            open(gpt2, "dtype = \"int32\"").sample.classes);
}

TEST_F(TokenForms, EightBytesReadAsFewerAreRefused) {
  const Bytes file = bytes_of_numbers(words<std::int64_t>(2000, 50257));
  EXPECT_THAT(refusal(file), one_line_that_says("looks like int64"));
  EXPECT_THAT(refusal_as(file, "uint32"), one_line_that_says("int64"));
  EXPECT_THAT(refusal_as(file, "uint8"), one_line_that_says("int64"));
  EXPECT_GT(open(file, "dtype = \"int64\"").sample.classes, 1000);
  auto padded = words<std::int64_t>(2000, 50257);
  for (std::size_t i = 0; i < padded.size(); i += 10) padded[i] = -100;
  EXPECT_THAT(refusal(bytes_of_numbers(padded)), HasSubstr("int64"));
  EXPECT_THAT(refusal_as(bytes_of_numbers(padded), "int64"),
              HasSubstr("token 0 is -100"));
}

TEST_F(TokenForms, TwoBytesReadAsMoreAreRefused) {
  const Bytes gpt2 = bytes_of_numbers(words<std::uint16_t>(4000, 50257));
  const Bytes letters = bytes_of_numbers(words<std::uint16_t>(4000, 65));
  const Bytes bits = bytes_of_numbers(words<std::uint16_t>(400, 2));
  for (const Bytes& file : {gpt2, letters, bits}) {
    EXPECT_THAT(refusal_as(file, "uint32"), one_line_that_says("uint16"));
    EXPECT_THAT(refusal_as(file, "int64"), one_line_that_says("uint16"));
    EXPECT_EQ(refusal(file), "") << "as what they are";
  }
  EXPECT_THAT(refusal_as(gpt2, "uint8"), one_line_that_says("uint16"));
  EXPECT_THAT(refusal_as(letters, "uint8"), one_line_that_says("uint16"));
}

TEST_F(TokenForms, BytesReadAsMoreAreRefused) {
  const Bytes letters = bytes_of_numbers(words<std::uint8_t>(4096, 100));
  std::vector<std::uint8_t> even(8192);
  std::mt19937 random(3);
  for (std::uint8_t& token : even)
    token = static_cast<std::uint8_t>(random() % 120);
  for (const Bytes& file : {letters, Bytes(even)}) {
    EXPECT_THAT(refusal(file), one_line_that_says("looks like uint8"));
    EXPECT_THAT(refusal_as(file, "uint32"), one_line_that_says("uint8"));
    EXPECT_EQ(refusal_as(file, "uint8"), "");
  }
}

TEST_F(TokenForms, BigEndianTokensAreRefused) {
  Bytes two = bytes_of_numbers(words<std::uint16_t>(20'000, 50257));
  for (std::size_t i = 0; i < two.size(); i += 2) std::swap(two[i], two[i + 1]);
  EXPECT_THAT(refusal(two), one_line_that_says("big-endian"));
  Bytes four = bytes_of_numbers(words<std::uint32_t>(2000, 50257));
  for (std::size_t i = 0; i < four.size(); i += 4) {
    std::swap(four[i], four[i + 3]);
    std::swap(four[i + 1], four[i + 2]);
  }
  EXPECT_THAT(refusal_as(four, "uint32"), one_line_that_says("big-endian"));
}

TEST_F(TokenForms, TokensOfEachVocabularyAreTakenForWhatTheyAre) {
  for (const std::size_t vocabulary : {2, 8, 65, 300, 5000, 50257, 65536})
    for (const std::size_t count : {100, 1000, 20'000}) {
      const auto tokens = words<std::uint32_t>(count, vocabulary);
      EXPECT_EQ(refusal(bytes_of_numbers(
                    std::vector<std::uint16_t>(tokens.begin(), tokens.end()))),
                "")
          << vocabulary;
      EXPECT_EQ(refusal_as(bytes_of_numbers(tokens), "uint32"), "")
          << vocabulary;
    }
  EXPECT_EQ(refusal_as(bytes_of_numbers(words<std::uint32_t>(20'000, 260'000)),
                       "uint32"),
            "");
}

TEST_F(TokenForms, TokensThatAreDrawnEvenlyAreTakenForWhatTheyAre) {
  std::mt19937 random(5);
  for (const unsigned vocabulary : {50U, 257U, 1000U, 50257U, 65536U}) {
    std::vector<std::uint16_t> tokens(20'000);
    for (std::uint16_t& token : tokens)
      token = static_cast<std::uint16_t>(random() % vocabulary);
    EXPECT_EQ(refusal(bytes_of_numbers(tokens)), "") << vocabulary;
  }
}

TEST_F(TokenForms, AnArrayOfNumPySaysItsTypeItself) {
  const auto tokens = words<std::int64_t>(500, 1000);
  const DataSet data = open(npy_of("<i8", "(500,)", bytes_of_numbers(tokens)));
  EXPECT_LE(data.sample.classes, 1000);
  EXPECT_EQ(all_of(data.test).inputs[0][0].item<std::int64_t>(), tokens[0]);
  EXPECT_THAT(found_line(data), HasSubstr("500 tokens (int64 by a .npy"));
  const auto narrow = words<std::uint16_t>(500, 1000);
  EXPECT_EQ(all_of(open(npy_of("<u2", "(500,)", bytes_of_numbers(narrow)),
                        "dtype = \"uint32\"")
                       .test)
                .labels[1][3]
                .item<std::int64_t>(),
            narrow[12]);
}

TEST_F(TokenForms, AnArrayOfNumPyThatIsNoRowOfTokensIsRefused) {
  const Bytes numbers(800);
  EXPECT_THAT(refusal(npy_of("<f4", "(200,)", numbers)),
              one_line_that_says("'<f4', which are no tokens"));
  EXPECT_THAT(refusal(npy_of("<u2", "(20, 20)", numbers)),
              one_line_that_says("2 dimensions"));
  EXPECT_THAT(refusal(npy_of("<u2", "(500,)", numbers)),
              one_line_that_says("says 500 of uint16"));
  EXPECT_THAT(refusal(npy_of(">u2", "(400,)", numbers)),
              one_line_that_says("big-endian"));
}

TEST_F(TokenForms, FilesOfLlmCAreReadBehindTheirHeader) {
  const auto two = words<std::uint16_t>(600, 50257);
  const DataSet gpt2 =
      open(with_llmc_header(20240520, 1, 600, bytes_of_numbers(two)));
  EXPECT_EQ(all_of(gpt2.test).inputs[0][5].item<std::int64_t>(), two[5]);
  EXPECT_THAT(found_line(gpt2), HasSubstr("600 tokens (uint16 by llm.c's"));
  const auto four = words<std::uint32_t>(600, 128'000);
  const DataSet llama =
      open(with_llmc_header(20240801, 7, 600, bytes_of_numbers(four)));
  EXPECT_EQ(all_of(llama.test).inputs[0][5].item<std::int64_t>(), four[5]);
}

TEST_F(TokenForms, FilesOfLlmCThatAreCutOffOrHoldNoTokensAreRefused) {
  const Bytes tokens(1200);
  EXPECT_THAT(refusal(with_llmc_header(20240520, 1, 700, tokens)),
              one_line_that_says("is it cut off"));
  EXPECT_THAT(refusal(with_llmc_header(20240520, 3, 600, tokens)),
              one_line_that_says("of version 3"));
  EXPECT_THAT(refusal(with_llmc_header(20240522, 1, 600, tokens)),
              one_line_that_says("no token file of it"));
}

TEST_F(TokenForms, FilesOfOtherKindsAreRefusedByName) {
  const auto padded = [](std::string text) {
    text.resize(256, '\7');
    return Bytes(text.begin(), text.end());
  };
  EXPECT_THAT(refusal(padded("PK\3\4")), one_line_that_says("a zip"));
  EXPECT_THAT(refusal(padded("\x1f\x8b\x08")), one_line_that_says("gunzip"));
  EXPECT_THAT(refusal(padded("PAR1")), one_line_that_says("Parquet"));
  EXPECT_THAT(refusal(padded("\x80\x04\x95")), one_line_that_says("pickle"));
  std::string text;
  while (text.size() < 300) text += "To be, or not to be:\nthat is ";
  EXPECT_THAT(refusal(Bytes(text.begin(), text.end())),
              one_line_that_says("data.name = \"text\""));
  text.resize(256);
  EXPECT_EQ(refusal_as(Bytes(text.begin(), text.end()), "uint8"), "");
}

TEST_F(TokenForms, AHugeVocabularyIsToBeSaid) {
  std::vector<std::uint32_t> tokens = words<std::uint32_t>(4000, 100'000);
  tokens[77] = 3'000'000;
  const Bytes file = bytes_of_numbers(tokens);
  EXPECT_THAT(refusal_as(file, "uint32"),
              one_line_that_says("set data.vocabulary = 3000001"));
  EXPECT_EQ(
      open(file, "dtype = \"uint32\"\nvocabulary = 3000001").sample.classes,
      3'000'001);
}

TEST_F(TokenForms, AVocabularyThatEndsBeforeATokenIsRefusedAtTheStart) {
  const Bytes file = bytes_of_numbers(words<std::uint16_t>(4000, 300));
  EXPECT_THAT(refusal(file, "vocabulary = 100"),
              one_line_that_says("data.vocabulary = 100 ends before it"));
}

TEST_F(TokenForms, FilesOfZerosAreRefusedAndTheirShareIsSaid) {
  EXPECT_THAT(refusal(Bytes(4000)), one_line_that_says("all its tokens are 0"));
  std::vector<std::uint16_t> half(400);
  for (std::size_t i = 0; i < 200; ++i)
    half[i] = static_cast<std::uint16_t>(1 + i);
  EXPECT_THAT(found_line(open(bytes_of_numbers(half))),
              AllOf(HasSubstr("vocabulary 201"),
                    HasSubstr("a.bin: 400 tokens (uint16), 50.0 % of them 0")));
}

}  // namespace sluice::token_form_test
