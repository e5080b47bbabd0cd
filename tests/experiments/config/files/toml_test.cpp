#include "experiments/config/files/toml.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"

namespace sluice::config_toml_test {

using testing::HasSubstr;
using testing::StartsWith;

ConfigNode parse(std::string_view text) {
  return parse_toml(text, "x.toml");
}

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_text(std::string_view text) {
  return error_of([&] { parse(text); });
}

/// A folder of this test that vanishes with it.
class TomlFile : public testing::Test {
 protected:
  TomlFile()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("toml_" + std::string(testing::UnitTest::GetInstance()
                                           ->current_test_info()
                                           ->name()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TomlFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_;
};

TEST(Toml, ReadsEveryType) {
  EXPECT_EQ(parse("a = true\nb = -3\nc = 1e-3\nd = 'x'\ne = [1, [2.5]]\n"
                  "f = {g = 1}\n")
                .literal(),
            "{a = true, b = -3, c = 0.001, d = \"x\", e = [1, [2.5]], "
            "f = {g = 1}}");
}

TEST(Toml, KeepsTheOrderOfTheFile) {
  EXPECT_EQ(parse("z = 1\na.y = 2\na.b = 3\n[m.x]\n[c]\nb = {q = 1, d = 2}")
                .literal(),
            "{z = 1, a = {y = 2, b = 3}, m = {x = {}}, "
            "c = {b = {q = 1, d = 2}}}");
}

TEST(Toml, EveryNodeKnowsItsLine) {
  const ConfigNode root = parse("# comment\na = 1\n[b]\nc = [\n  1,\n  2]\n");
  EXPECT_EQ(root.find("a")->origin.text(), "x.toml:2");
  EXPECT_EQ(root.find("b")->origin.text(), "x.toml:3");
  const ConfigNode& list = *root.find("b")->find("c");
  EXPECT_EQ(list.origin.text(), "x.toml:4");
  EXPECT_EQ(std::get<ConfigNode::Array>(list.value)[1].origin.text(),
            "x.toml:6");
}

TEST(Toml, EveryTableOfAListKnowsItsLine) {
  const ConfigNode root = parse("[[g]]\na = 1\n[[g]]\na = 2\n");
  const auto& rows = std::get<ConfigNode::Array>(root.find("g")->value);
  EXPECT_EQ(rows[0].origin.text(), "x.toml:1");
  EXPECT_EQ(rows[1].origin.text(), "x.toml:3");
  EXPECT_EQ(rows[1].find("a")->origin.text(), "x.toml:4");
}

TEST(Toml, ATextWithoutKeysIsAnEmptyTable) {
  EXPECT_EQ(parse("").literal(), "{}");
  EXPECT_EQ(parse("# only a comment\r\n").literal(), "{}");
}

TEST(TomlErrors, ASyntaxErrorNamesFileLineColumnAndReason) {
  EXPECT_EQ(error_of_text("a = 1\nb = \n"),
            "x.toml:2:5: Error while parsing key-value pair: expected value, "
            "saw '\\n'");
}

TEST(TomlErrors, AKeyWrittenTwiceIsRefused) {
  const std::string error = error_of_text("a = 1\na = 2\n");
  EXPECT_THAT(error, StartsWith("x.toml:2:"));
  EXPECT_THAT(error, HasSubstr("cannot redefine existing integer 'a'"));
}

TEST(TomlErrors, WhatIsNoUtf8IsRefused) {
  EXPECT_EQ(error_of_text("a = \"\xff\""),
            "x.toml:1:5: Encountered invalid utf-8 sequence");
}

TEST(TomlErrors, DatesAreRefused) {
  EXPECT_EQ(error_of_text("a = 1\n[b]\nday = 1979-05-27\n"),
            "x.toml:3: day: dates and times are not supported; a string needs "
            "quotes");
}

TEST(TomlErrors, TimesInListsAreRefused) {
  EXPECT_THAT(error_of_text("at = [\n07:32:00]"),
              StartsWith("x.toml:2: at: dates and times"));
}

TEST_F(TomlFile, IsReadWithItsPathAsOrigin) {
  const std::string path = write("a.toml", "a = 1\n");
  EXPECT_EQ(read_toml_file(path).find("a")->origin.text(), path + ":1");
}

TEST_F(TomlFile, ThatIsEmptyIsAnEmptyTable) {
  EXPECT_EQ(read_toml_file(write("a.toml", "")).literal(), "{}");
}

TEST_F(TomlFile, ThatIsMissingIsOneClearError) {
  const std::string path = (folder_ / "none.toml").string();
  EXPECT_EQ(error_of([&] { read_toml_file(path); }),
            "can't read '" + path + "': No such file or directory");
}

TEST_F(TomlFile, ThatIsADirectoryIsOneClearError) {
  EXPECT_EQ(error_of([&] { read_toml_file(folder_.string()); }),
            "can't read '" + folder_.string() +
                "': it is a directory; give a regular file");
}

TEST_F(TomlFile, BelowAFileIsOneClearError) {
  const std::string path = write("a.toml", "") + "/b.toml";
  EXPECT_EQ(error_of([&] { read_toml_file(path); }),
            "can't read '" + path + "': Not a directory");
}

TEST(ToToml, WritesPlainValuesThenTablesThenTheirLists) {
  const ConfigNode root =
      parse("[b]\nx = 1\n[[b.rows]]\nk = 'v'\n[[b.rows]]\n[c.d]\ny = 2.0\n");
  ConfigNode with_plain = root;
  with_plain.set("a", {std::string("z"), {}});
  EXPECT_EQ(to_toml(with_plain),
            "a = \"z\"\n"
            "\n[b]\nx = 1\n"
            "\n[[b.rows]]\nk = \"v\"\n"
            "\n[[b.rows]]\n"
            "\n[c.d]\ny = 2.0\n");
}

TEST(ToToml, AnEmptyNodeIsAnEmptyFile) {
  EXPECT_EQ(to_toml(ConfigNode{}), "");
}

TEST(ToToml, AnEmptyTableKeepsItsHeader) {
  EXPECT_EQ(to_toml(parse("a = {}")), "[a]\n");
}

TEST(ToToml, ListsOfMixedValuesStayInOneLine) {
  EXPECT_EQ(to_toml(parse("a = [1, {b = 2}]")), "a = [1, {b = 2}]\n");
}

TEST(ToToml, UnusualKeysAreQuoted) {
  EXPECT_EQ(to_toml(parse("\"a b\".c = 1\n\"\" = 2\n")),
            "\"\" = 2\n\n[\"a b\"]\nc = 1\n");
}

TEST(ToToml, AKeyWithoutAValueIsABug) {
  ConfigNode root;
  root.set("a", ConfigNode{});
  EXPECT_THROW(to_toml(root), InternalError);
}

TEST(ToToml, ExtremeNumbersReadBackExactly) {
  ConfigNode::Array numbers;
  for (const double number :
       {0.0, 1.0, -1.0, 0.1, 1e-5, 1e22, 123456789012345680.0,
        std::numeric_limits<double>::max(), std::numeric_limits<double>::min(),
        std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::infinity()}) {
    numbers.push_back({number, {}});
  }
  ConfigNode root;
  root.set("numbers", {numbers, {}});
  root.set("least", {std::numeric_limits<std::int64_t>::min(), {}});
  root.set("most", {std::numeric_limits<std::int64_t>::max(), {}});
  EXPECT_EQ(parse(to_toml(root)), root);
}

TEST(ToToml, MinusZeroKeepsItsSign) {
  ConfigNode root;
  root.set("a", {-0.0, {}});
  EXPECT_TRUE(
      std::signbit(std::get<double>(parse(to_toml(root)).find("a")->value)));
}

/// Random trees with everything that a file can hold.
class RandomTree {
 public:
  explicit RandomTree(std::uint64_t seed) : random_(seed) {}

  ConfigNode table(int depth) {
    ConfigNode result = {ConfigNode::Table{}, {}};
    for (std::uint64_t i = below(5); i > 0; --i) {
      result.set(text(), value(depth - 1));
    }
    return result;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  std::string text() {
    static const std::vector<std::string> kPieces = {
        "a", "lr", ".", " ", "\"", "\\", "\n", "\t", "\x01", "\x7f",
        "ü", "深", "'", "#", "=",  "[",  "]",  "{",  "\r",   "-"};
    std::string result;
    for (std::uint64_t i = below(5); i > 0; --i) {
      result += kPieces[below(kPieces.size())];
    }
    return result;
  }

  double number() {
    const auto value = std::bit_cast<double>(random_());
    return std::isnan(value) ? 0.5 : value;
  }

  ConfigNode array(int depth) {
    const bool only_tables = below(2) == 0;
    ConfigNode::Array result;
    for (std::uint64_t i = below(4); i > 0; --i) {
      result.push_back(only_tables ? table(depth - 1) : value(depth - 1));
    }
    return {result, {}};
  }

  ConfigNode value(int depth) {
    switch (below(depth > 0 ? 6 : 4)) {
      case 0:
        return {below(2) == 0, {}};
      case 1:
        return {static_cast<std::int64_t>(random_() >> below(64)), {}};
      case 2:
        return {number(), {}};
      case 3:
        return {text(), {}};
      case 4:
        return array(depth);
      default:
        return table(depth);
    }
  }

  std::mt19937_64 random_;
};

TEST(ToToml, AnyTreeReadsBackEqual) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const ConfigNode root = RandomTree(seed).table(4);
    const std::string text = to_toml(root);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << text);
    ASSERT_EQ(error_of([&] { EXPECT_EQ(parse(text), root); }), "no error");
  }
}

TEST(ToToml, WrittenTwiceIsTheSameText) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::string once = to_toml(RandomTree(seed).table(4));
    ASSERT_EQ(to_toml(parse(once)), once);
  }
}

TEST(TomlErrors, DamagedTextGivesATreeOrAUserError) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::string text = to_toml(RandomTree(seed).table(3)) + "k = 1\n";
    text[random() % text.size()] = static_cast<char>(random());
    const std::string error = error_of_text(text);
    EXPECT_TRUE(error == "no error" || error.rfind("x.toml:", 0) == 0) << error;
  }
}

TEST(ConfigInToml, AnErrorNamesTheLineOfTheFile) {
  const ConfigNode root = parse("\n[optimizer]\nlr = 'fast'\n");
  EXPECT_EQ(error_of([&] {
              Fields(&root, "").section("optimizer", "", [](Fields& below) {
                double lr = 0.1;
                below.key("lr", lr, {});
              });
            }),
            "x.toml:3: optimizer.lr: expected a number, found string 'fast'");
}

TEST(ConfigInToml, AnUnknownKeyNamesTheLineOfTheFile) {
  const ConfigNode root = parse("[optimizer]\n\nmometum = 0.9\n");
  EXPECT_EQ(error_of([&] {
              Fields(&root, "").section("optimizer", "", [](Fields& below) {
                double momentum = 0;
                below.key("momentum", momentum, {});
              });
            }),
            "x.toml:3: unknown key 'optimizer.mometum' (did you mean "
            "'momentum'?); this table has: momentum");
}

}  // namespace sluice::config_toml_test
