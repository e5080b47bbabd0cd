#include "experiments/config/presets/published.h"

#include <array>
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice::published_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::string_view kCoverageText = R"(
[[group]]
title = "Pipelines"

[[group.system]]
name = "DualPipe"
state = "not yet"

[[group]]
title = "Bytes"
)";

constexpr std::string_view kPlanted = R"(
extends = ["../quickstart/backprop.toml"]
blocks = 3

[boundary]
policy = "local_loss"
head = {name = "linear", hidden = 3}

[about]
name = "Planted"
paper = "Someone 2020"
group = "Bytes"
summary = "blocks that learn by themselves"
kept = """
the graph of
one batch"""
keys = ["boundary.policy", "boundary.head.name"]
rows = ["heads linear"]
tests = ["tests/a_test.cpp A.Learns"]
)";

PublishedSystems read(std::span<const ConfigText> configs) {
  return read_published_systems(kCoverageText, configs);
}

TEST(Published, APlantedConfigIsAMethodAndASystem) {
  const std::array configs = {ConfigText{"small/planted", kPlanted},
                              ConfigText{"small/plain", "blocks = 2\n"}};
  const PublishedSystems published = read(configs);
  ASSERT_EQ(published.configs.size(), 1U);
  const PublishedConfig& planted = published.configs[0];
  EXPECT_EQ(planted.name(), "planted");
  EXPECT_EQ(planted.about.kept, "the graph of one batch");
  EXPECT_EQ(planted.config(),
            "[boundary]\npolicy = \"local_loss\"\n\n"
            "[boundary.head]\nname = \"linear\"\n");
  ASSERT_EQ(published.systems.size(), 2U);
  const PublishedSystem& system = published.systems[0];
  EXPECT_EQ(system.name, "Planted");
  EXPECT_EQ(system.config, "small/planted");
  EXPECT_EQ(system.keys,
            "boundary = {policy = \"local_loss\", head = {name = \"linear\"}}");
  EXPECT_THAT(system.rows, ElementsAre("methods planted", "heads linear"));
  EXPECT_EQ(published.systems[1].name, "DualPipe");
}

TEST(Published, ConfigsAreInTheOrderOfTheirGroupsAndNames) {
  const std::string about = "[about]\ngroup = ";
  const std::string bytes = about + "'Bytes'\n";
  const std::string pipelines = about + "'Pipelines'\n";
  const std::array configs = {
      ConfigText{"a/b", bytes}, ConfigText{"b/a", bytes},
      ConfigText{"c/d", pipelines}, ConfigText{"d/c", pipelines}};
  std::string order;
  for (const PublishedConfig& config : read(configs).configs)
    order += config.name();
  EXPECT_EQ(order, "cdab");
}

std::string refusal_of(std::string_view text) {
  try {
    read(std::array{ConfigText{"a/b", text}});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Published, KeysThatTheConfigLacksAreRefused) {
  EXPECT_EQ(refusal_of("[about]\ngroup = 'Bytes'\nkeys = ['boundary.policy']"),
            "experiments/configs/a/b.toml: about.keys: the file has no key "
            "'boundary.policy'");
}

TEST(Published, ASecondFileOfAMethodIsRefused) {
  constexpr const char* kText = "[about]\ngroup = 'Bytes'\nsummary = 'x'\n";
  const std::vector<ConfigText> twice = {{"a/b", kText}, {"c/b", kText}};
  EXPECT_THAT(
      [&] { read_published_systems("[[group]]\ntitle = 'Bytes'\n", twice); },
      ThrowsMessage<UserError>(HasSubstr(
          "c/b.toml: the method 'b' is experiments/configs/a/b.toml")));
}

TEST(Published, AGroupThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal_of("[about]\ngroup = 'Byte'"),
              HasSubstr("a/b.toml: about.group: there is no 'Byte'"));
}

/// A new config needs no other file.
TEST(Published, EveryConfigWithATableAboutIsOneOfThem) {
  const fs::path folder =
      fs::path(SLUICE_TEST_FOLDER) / "../experiments/configs";
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    if (read_toml_file(entry.path().string()).find("about") != nullptr)
      files.insert(
          fs::relative(entry.path(), folder).replace_extension().string());
  }
  std::set<std::string> names;
  for (const PublishedConfig& config : published_systems().configs)
    names.insert(config.file);
  EXPECT_EQ(names, files);
  EXPECT_GT(names.size(), 80U);
}

TEST(Published, NamesOfMethodsAreUnique) {
  std::set<std::string_view> names;
  for (const PresetRow& row : presets())
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

}  // namespace sluice::published_test
