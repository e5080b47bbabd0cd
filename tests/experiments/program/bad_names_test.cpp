// Issue 18, item 13: names that would lead out of their folder, or speak to a
// terminal; and keys that are named as the user wrote them.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"

namespace sluice::bad_names_test {

namespace fs = std::filesystem;

struct Wrong {
  const char* name;
  std::string config;
  std::string says;
  std::string arguments = {};
  std::string command = "run";
};

class BadName : public Program, public testing::WithParamInterface<Wrong> {};

bool is_seen(char c) {
  return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
}

TEST_P(BadName, IsOneErrorLineAndWritesNothing) {
  const Wrong& wrong = GetParam();
  write("config.toml", wrong.config);
  const Outcome run =
      shell("cd " + folder_ + " && mkdir work && cd work && " + SLUICE_PROGRAM +
            " " + wrong.command + " ../config.toml " + wrong.arguments);
  EXPECT_EQ(run.status, 2) << run.text;
  EXPECT_NE(run.text.find(wrong.says), std::string::npos) << run.text;
  EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1) << run.text;
  EXPECT_TRUE(std::all_of(run.text.begin(), run.text.end() - 1, is_seen))
      << run.text;
  EXPECT_TRUE(fs::is_empty(path("work"))) << run.text;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
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
    Names, BadName,
    testing::Values(
        Wrong{"LeadsOut", "name = '../../x'", "config.toml:1: name: '../../x'"},
        Wrong{"HasAFolder", "name = 'a/b'", "has a '/'"},
        Wrong{"IsAbsolute", "name = '/tmp/x'", "has a '/'"},
        Wrong{"IsEmpty", "name = ''", "name: is empty"},
        Wrong{"IsTheFolderAbove", "name = '..'", "begins with a '.'"},
        Wrong{"IsHidden", "name = '.x'", "begins with a '.'"},
        Wrong{"HasALineEnd", "name = \"a\\nb\"", "'a\\nb' has a character"},
        Wrong{"HasANul", "name = \"a\\u0000b\"", "'a\\x00b' has a character"},
        Wrong{"ColoursTheTerminal", "name = \"a\\u001b[31mb\"",
              "'a\\x1b[31mb'"},
        Wrong{"TurnsTheWriting", "name = \"a\\u202eb\"", "'a\\u202eb'"},
        Wrong{"IsASpace", "name = ' '", "a space"},
        Wrong{"IsTooLong", "name = '" + std::string(300, 'x') + "'",
              "has 300 bytes"},
        Wrong{"ComesFromTheCommandLine", "", "has a '/'", "name=../x"},
        Wrong{
            "IsASweepsOwn",
            "sweep = {name = '../x', axis = [{key = 'epochs', values = [1]}]}",
            "sweep.name: '../x' has a '/'", "", "sweep"},
        Wrong{"IsASweepsFromItsConfig",
              "name = '../x'\nsweep = {axis = [{key = 'epochs', values = "
              "[1]}]}",
              "'../x' has a '/'", "", "sweep"},
        Wrong{"IsAnAxis", "", "'../x' has a '/'", "name=../x,../y", "sweep"},
        Wrong{"IsACardsRun", "card = {title = 't'}\nrun = [{name = '../x'}]",
              "'../x' is no name"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Keys, BadName,
    testing::Values(
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
        Wrong{"ThatSpeaksToATerminal", "\"a\\u001b[31mb\" = 1",
              "unknown key 'a\\x1b[31mb'"},
        Wrong{"ThatIsCommonToBlocks", "optimizer = {lrr = 1}",
              "unknown key 'optimizer.lrr' (did you mean 'lr'?)"},
        Wrong{"ThatIsOneBlocks", "optimizer = {2 = {lrr = 1}}",
              "unknown key 'optimizer.2.lrr'"},
        Wrong{"ThatIsInACommonTable", "optimizer = {schedule = {nam = 'x'}}",
              "unknown key 'optimizer.schedule.nam'"},
        Wrong{"ThatIsOneBlocksBesideACommonOne",
              "optimizer = {lr = 0.1, 1 = {momentun = 1}}",
              "unknown key 'optimizer.1.momentun'"},
        Wrong{"OfAllBoundaries", "boundary = {polcy = 'x'}",
              "unknown key 'boundary.polcy'"},
        Wrong{"ThatIsOutOfRangeForAll", "optimizer = {lr = -1}",
              "optimizer.lr: -1 is out of range"},
        Wrong{"OfOneBoundaryThatIsNotThere", "boundary = {5 = {}}",
              "boundary.5: there is only number 1"},
        Wrong{"OfABoundaryOf309Digits", "boundary = {" + kLong + " = {}}",
              "99...: there is only number 1"},
        Wrong{"OfNoBoundary", "blocks = 1\nboundary = {1 = {}}",
              "there is none"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Ranges, BadName,
    testing::Values(
        Wrong{"Overlap", "blocks = ['0-1', '1-']", "leaves an overlap"},
        Wrong{"Gap", "blocks = ['0', '2-']", "leaves a gap"},
        Wrong{"EndsAfter309Digits", "blocks = ['0-" + kLong + "']",
              "the model's layers are 0-2"},
        Wrong{"BeginsAfter309Digits", "blocks = ['" + kLong + "-']",
              "the model's layers are 0-2"},
        Wrong{"HasAMinus", "blocks = ['-1-2']", "is no range of layers"},
        Wrong{"HasNoNumber", "blocks = ['all']", "is no range of layers"},
        Wrong{"OfASweepEndsAfter309Digits", "", "no number",
              "'optimizer.lr=uniform(0," + kLong + ")' --samples 2", "sweep"},
        Wrong{"OfASweepIsInfinite", "", "wants finite ends",
              "'optimizer.lr=uniform(0,inf)' --samples 2", "sweep"},
        Wrong{"OfASweepIsNan", "", "optimizer.lr",
              "'optimizer.lr=uniform(nan,1)' --samples 2", "sweep"},
        Wrong{"OfIntegersIsTooWide", "", "wants ends from -1e+15 to 1e+15",
              "'blocks=int(0,1e300)' --samples 2", "sweep"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace sluice::bad_names_test
