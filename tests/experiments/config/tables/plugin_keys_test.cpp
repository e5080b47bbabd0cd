#include "experiments/config/tables/plugin_keys.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/numbers.h"
#include "lib/base/error.h"

namespace sluice::plugin_keys_test {

using testing::HasSubstr;

std::string here(const std::string& name) {
  return (std::filesystem::current_path() / name).string();
}

std::string plugins_with(const std::string& config,
                         const std::vector<std::string>& paths) {
  ConfigNode node = parse_toml(config, "test.toml");
  add_plugins(paths, node);
  const ConfigNode* plugins = node.find("plugins");
  return plugins == nullptr ? "" : plugins->literal();
}

TEST(PluginKeys, PluginsOfTheCommandLineStandBehindTheConfigs) {
  EXPECT_EQ(plugins_with("plugins = 'a.so'\n", {"b.so", "/c.so"}),
            "[\"a.so\", \"" + here("b.so") + "\", \"/c.so\"]");
  EXPECT_EQ(plugins_with("", {"/c.so"}), "[\"/c.so\"]");
  EXPECT_EQ(plugins_with("plugins = ['a.so']\n", {}), "[\"a.so\"]");
  EXPECT_EQ(plugins_with("", {}), "");
}

TEST(PluginKeys, PluginsOfTheCommandLineTakeTheFileWhateverItsHash) {
  const std::string run =
      "plugins = [{path = '/a.so', sha256 = '12'}, {path = '/b.so', sha256 = "
      "'34'}]\n";
  EXPECT_EQ(plugins_with(run, {"/x/../a.so"}),
            "[{path = \"/b.so\", sha256 = \"34\"}, \"/a.so\"]");
}

TEST(PluginKeys, AreAnOverrideForEachRunOfACard) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  apply_override(config, plugins_override({"/a.so", "/b.so"}));
  EXPECT_EQ(config.find("plugins")->literal(), "[\"/a.so\", \"/b.so\"]");
}

TEST(PluginKeys, MakeNumbersByTheBytesOfAFileAndNotItsPlace) {
  const auto numbers = [](const std::string& plugins) {
    return numbers_of(parse_toml("plugins = " + plugins + "\n", "test.toml"));
  };
  const ConfigNode one = numbers("[{path = '/x/a.so', sha256 = '12'}]");
  EXPECT_EQ(one, numbers("[{path = '/y/a.so', sha256 = '12'}]"));
  EXPECT_THAT(
      first_difference(one, numbers("[{path = '/x/a.so', sha256 = '34'}]")),
      HasSubstr("plugins.a.so is \"12\", not \"34\""));
  const auto two = [&](const std::string& first) {
    return numbers("[{path = '/x/a.so', sha256 = '" + first +
                   "'}, {path = '/y/a.so', sha256 = '12'}]");
  };
  EXPECT_NE(two("34"), two("56")) << "of the same name";
}

TEST(PluginKeys, ThatAreMissingAreNamedWithTheirPlace) {
  const ConfigNode config =
      parse_toml("seed = 1\nplugins = ['/nowhere/a.so']\n", "test.toml");
  Fields fields(&config, "");
  try {
    read_plugins(fields);
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("test.toml:2: plugins: can't read "
                                        "'/nowhere/a.so'"));
  }
}

TEST(PluginKeys, ThatAreAbsentLeaveTheResolvedConfigAsItWas) {
  const ConfigNode config = parse_toml("seed = 1\n", "test.toml");
  Fields fields(&config, "");
  EXPECT_EQ(read_plugins(fields), ConfigNode());
  EXPECT_EQ(fields.resolved().find("plugins"), nullptr);
}

}  // namespace sluice::plugin_keys_test
