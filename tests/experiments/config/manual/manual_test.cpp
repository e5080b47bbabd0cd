#include "experiments/config/manual/manual.h"

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::config_manual_test {

KeyDoc number(const std::string& path) {
  return {.path = path,
          .type = "number",
          .default_value = "0.1",
          .text = "step size",
          .unit = "ms",
          .limits = "0 to 1"};
}

KeyDoc table(const std::string& path, const std::string& type) {
  return {.path = path, .type = type, .text = "what " + path + " is"};
}

TEST(Manual, ManualOfNoKeysIsEmpty) {
  EXPECT_EQ(config_manual({}), "");
}

TEST(Manual, AKeyHasItsTypeMeaningDefaultUnitAndLimits) {
  EXPECT_EQ(config_manual({number("lr")}),
            "  lr  number  step size (default 0.1; in ms; 0 to 1)\n");
}

TEST(Manual, NamesAndTypesAreAligned) {
  const KeyDoc name = {.path = "name", .type = "string", .text = "of the run"};
  const KeyDoc hidden = {
      .path = "hidden", .type = "list of integers", .text = "widths"};
  EXPECT_EQ(config_manual({name, hidden}),
            "  name    string            of the run\n"
            "  hidden  list of integers  widths\n");
}

TEST(Manual, EachTableIsAParagraph) {
  EXPECT_EQ(config_manual({number("lr"), table("a", "table"), number("a.x"),
                           table("a.rows", "list of tables"),
                           number("a.rows[].z"), number("a.y")}),
            "  lr  number  step size (default 0.1; in ms; 0 to 1)\n"
            "\n[a]\nwhat a is\n"
            "  x  number  step size (default 0.1; in ms; 0 to 1)\n"
            "  y  number  step size (default 0.1; in ms; 0 to 1)\n"
            "\n[[a.rows]]\nwhat a.rows is\n"
            "  z  number  step size (default 0.1; in ms; 0 to 1)\n");
}

TEST(Manual, LongTextContinuesBelowItsColumn) {
  KeyDoc key = {.path = "lr", .type = "number"};
  for (int i = 0; i < 30; ++i) key.text += "word ";
  EXPECT_EQ(config_manual({key}),
            "  lr  number  word word word word word word word word word word "
            "word word word\n"
            "              word word word word word word word word word word "
            "word word word\n"
            "              word word word word\n");
}

TEST(Manual, AllowedStringsCanBeWrapped) {
  KeyDoc key = {.path = "policy", .type = "string", .text = "which"};
  key.limits = "backprop|local_loss";
  EXPECT_EQ(config_manual({key}),
            "  policy  string  which (backprop | local_loss)\n");
}

TEST(Manual, AWideNameHasItsTextBelow) {
  const KeyDoc key = {
      .path = std::string(50, 'n'), .type = "number", .text = "step size"};
  EXPECT_EQ(config_manual({key}),
            "  " + std::string(50, 'n') + "\n      number: step size\n");
}

TEST(Manual, NoLineIsLongerThan80Columns) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto text = [&](std::size_t most) {
      std::string result;
      for (std::size_t i = random() % most; i > 0; --i) {
        result += "abcdef  |"[random() % 9];
      }
      return result;
    };
    std::vector<KeyDoc> keys;
    for (int i = 0; i < 5; ++i) {
      keys.push_back({.path = "name" + std::string(random() % 60, 'x'),
                      .type = text(40),
                      .default_value = text(200),
                      .text = text(400),
                      .unit = text(10),
                      .limits = text(100)});
    }
    std::istringstream lines(config_manual(keys));
    for (std::string line; std::getline(lines, line);) {
      ASSERT_LE(line.size(), 80u) << line;
    }
  }
}

}  // namespace sluice::config_manual_test
