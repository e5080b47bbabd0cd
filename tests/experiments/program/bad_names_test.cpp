// Issue 18, item 13: names and numbers that are too long to be written out in
// tests/experiments/refusals/inputs/names.toml.
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/refused_command.h"

namespace sluice::bad_names_test {

struct Wrong {
  const char* name;
  std::string config;
  std::string says;
  std::string arguments = {};
  std::string command = "run";
};

class LongName : public RefusedCommand,
                 public testing::WithParamInterface<Wrong> {};

TEST_P(LongName, IsOneErrorLineAndWritesNothing) {
  const Wrong& wrong = GetParam();
  write("config.toml", wrong.config);
  expect_refusal(wrong.command + " ../config.toml " + wrong.arguments,
                 wrong.says);
}

std::string parts(int count) {
  std::string text = "a";
  for (int i = 1; i < count; ++i) text += ".a";
  return text;
}

std::string nested(int count) {
  std::string text = "1";
  for (int i = 0; i < count; ++i) text = "{a = " + text + "}";
  return text;
}

const std::string kLong = std::string(309, '9');

INSTANTIATE_TEST_SUITE_P(
    Names, LongName,
    testing::Values(
        Wrong{"IsTooLong", "name = '" + std::string(300, 'x') + "'",
              "has 300 bytes"},
        Wrong{"OfManyParts", parts(60'000) + " = 1", "nested more than"},
        Wrong{"OfATableOfManyParts", "[" + parts(60'000) + "]",
              "nested more than"},
        Wrong{"InManyBrackets", "a = " + nested(200), "nested more than"},
        Wrong{"InManyLists",
              "a = " + std::string(60'000, '[') + std::string(60'000, ']'),
              "nested more than"},
        Wrong{"BothDottedAndInBrackets",
              parts(20) + " = {" + parts(30) + " = {" + parts(30) + " = 1}}",
              "nested more than 64 deep"},
        Wrong{"OfManyPartsOnTheCommandLine", "", "has 20000 parts",
              parts(20'000) + "=1"},
        Wrong{"InManyBracketsOnTheCommandLine", "", "nested more than",
              "'model=" + nested(200) + "'"},
        Wrong{"OfManyPartsOfAnAxis", "", "has 20000 parts",
              parts(20'000) + "=1,2", "sweep"},
        Wrong{"OfABoundaryOf309Digits", "boundary = {" + kLong + " = {}}",
              "99...: there is only number 1"},
        Wrong{"EndsAfter309Digits", "blocks = ['0-" + kLong + "']",
              "the model's layers are 0-2"},
        Wrong{"BeginsAfter309Digits", "blocks = ['" + kLong + "-']",
              "the model's layers are 0-2"},
        Wrong{"OfASweepEndsAfter309Digits", "", "no number",
              "'optimizer.lr=uniform(0," + kLong + ")' --samples 2", "sweep"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace sluice::bad_names_test
