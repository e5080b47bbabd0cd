#include "experiments/config/files/interpolation.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice::config_interpolation_test {

using testing::HasSubstr;

ConfigNode read(const std::string& text) {
  return interpolated(parse_toml(text, "a.toml"));
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const UserError& error) {
    const std::string line = error.what();
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 0) << line;
    return line;
  }
  return "no error";
}

TEST(Interpolation, AReferenceStandsForTheValueWithItsType) {
  EXPECT_EQ(read("a = '${b}'\nb = 0.5\nc = '${d.e}'\nd = {e = [1, 2]}\n"
                 "f = '${d}'\ng = ['${b}', '${h}']\nh = true\n"),
            parse_toml("a = 0.5\nb = 0.5\nc = [1, 2]\nd = {e = [1, 2]}\n"
                       "f = {e = [1, 2]}\ng = [0.5, true]\nh = true\n",
                       "b.toml"));
}

TEST(Interpolation, WithinAStringItStandsForItsText) {
  EXPECT_EQ(*read("name = '${m.name}-lr${lr}-${seed}'\nlr = 1e-3\nseed = 7\n"
                  "m = {name = 'mlp'}\n")
                 .find("name"),
            ConfigNode{std::string("mlp-lr0.001-7")});
}

TEST(Interpolation, ReferencesMayLeadOn) {
  EXPECT_EQ(*read("a = '${b}'\nb = '${c}'\nc = 3\n").find("a"),
            ConfigNode{std::int64_t{3}});
}

TEST(Interpolation, TwoDollarsAreNoReference) {
  EXPECT_EQ(*read("a = '$${b} $$ $5'\nb = 1\n").find("a"),
            ConfigNode{std::string("${b} $$ $5")});
  EXPECT_EQ(*read("a = '${b}$${b}'\nb = 1\n").find("a"),
            ConfigNode{std::string("1${b}")});
}

TEST(Interpolation, AConfigWithoutReferencesComesBackFromItsEscapedForm) {
  const ConfigNode plain = parse_toml(
      "a = '${b} $${c} $$${d}'\nl = ['${e}', {f = '${'}]\nn = 1\n", "a.toml");
  EXPECT_EQ(interpolated(without_references(plain)), plain);
  EXPECT_FALSE(without_references(plain) == plain);
}

TEST(Interpolation, SeesOverridesOfWhatItRefersTo) {
  ConfigNode config = parse_toml("a = '${b}'\nb = 1\n", "a.toml");
  apply_override(config, "b=2");
  EXPECT_EQ(*interpolated(config).find("a"), ConfigNode{std::int64_t{2}});
}

TEST(Interpolation, AValueHasThePlaceAndLayerOfItsReference) {
  ConfigNode config = parse_toml("b = 1\n\na = '${b}'\n", "a.toml");
  apply_override(config, "b=2");
  const ConfigNode value = *interpolated(config).find("a");
  EXPECT_EQ(value.origin.text(), "a.toml:3");
  EXPECT_EQ(value.origin.layer, 0);
}

/// Each key refers twice to the one before.
std::string doubled(int levels, const std::string& reference) {
  std::string text = "k0 = 'x'\n";
  for (int i = 1; i <= levels; ++i)
    text += fmt::format("k{} = {}\n", i,
                        fmt::format(fmt::runtime(reference), i - 1));
  return text;
}

TEST(Interpolation, DoublingIsRefusedBeforeItFillsTheMemory) {
  EXPECT_EQ(error_of(doubled(8, "['${{k{0}}}', '${{k{0}}}']")), "no error");
  EXPECT_THAT(error_of(doubled(40, "['${{k{0}}}', '${{k{0}}}']")),
              HasSubstr("more than 100000 values"));
  EXPECT_THAT(error_of(doubled(40, "'${{k{0}}}${{k{0}}}'")),
              HasSubstr("more than"));
  EXPECT_THAT(error_of(doubled(100, "'${{k{0}}}'")),
              HasSubstr("more than 64 references"));
}

}  // namespace sluice::config_interpolation_test
