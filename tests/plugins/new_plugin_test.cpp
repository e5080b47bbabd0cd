// `sluice new plugin`: the folder that it writes is the tested plug-in, which
// docs/plugins.md shows. tests/install builds it.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/refused_command.h"

namespace sluice::new_plugin_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class NewPlugin : public RefusedCommand {
 protected:
  Outcome in_work(const std::string& arguments) const {
    return shell(
        fmt::format("cd {} && {} {}", path("work"), SLUICE_PROGRAM, arguments));
  }
};

TEST_F(NewPlugin, IsTheOneThatIsTestedAndDescribed) {
  const Outcome made = in_work("new plugin mine");
  ASSERT_EQ(made.status, 0) << made.text;
  const std::string source = slurp(path("work/mine/mine.cpp"));
  EXPECT_EQ(source, slurp(SLUICE_TEST_PLUGIN_SOURCE));
  EXPECT_THAT(slurp(SLUICE_PLUGIN_PAGE),
              HasSubstr("```cpp\n" + source + "```\n"));
}

TEST_F(NewPlugin, HasAHeadThatRefusesMapsInOneLine) {
  ASSERT_EQ(in_work("new plugin mine").status, 0);
  fs::create_directory(path("work/mine/build"));
  fs::copy_file(fmt::format("{}/libmine.so", SLUICE_TEST_PLUGINS),
                path("work/mine/build/libmine.so"));
  const Outcome run = in_work(
      "plan mine/mine.toml 'model={name=\"small_conv\"}' "
      "data.name=drawn_digits");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.text, HasSubstr("mine_head takes features [C]"));
}

TEST_F(NewPlugin, HasAConfigThatRuns) {
  ASSERT_EQ(in_work("new plugin mine").status, 0);
  fs::create_directory(path("work/mine/build"));
  fs::copy_file(fmt::format("{}/libmine.so", SLUICE_TEST_PLUGINS),
                path("work/mine/build/libmine.so"));
  const Outcome run = in_work("run mine/mine.toml turns=4 threads=1 --dir run");
  EXPECT_EQ(run.status, 0) << run.text;
}

TEST_F(NewPlugin, HasItsNameThroughout) {
  ASSERT_EQ(in_work("new plugin other_2").status, 0);
  for (const auto& entry : fs::directory_iterator(path("work/other_2"))) {
    const std::string text = slurp(entry.path());
    EXPECT_THAT(text, HasSubstr("other_2"));
    EXPECT_EQ(text.find("mine"), std::string::npos) << text;
    EXPECT_EQ(text.find('@'), std::string::npos) << text;
  }
}

TEST_F(NewPlugin, OverwritesNothing) {
  fs::create_directory(path("work/mine"));
  expect_refusal("new plugin mine", "is there already");
  EXPECT_TRUE(fs::is_empty(path("work/mine")));
  write("work/other", "a file");
  expect_refusal("new plugin other", "");
}

TEST_F(NewPlugin, HasANameThatCanBeOne) {
  for (const char* name : {"../up", "2nd", "Mine", "a-b", "test"})
    expect_refusal(fmt::format("new plugin {}", name), "is no name");
}

}  // namespace sluice::new_plugin_test
