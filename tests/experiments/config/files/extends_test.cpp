#include "experiments/config/files/extends.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::config_extends_test {

using testing::EndsWith;
using testing::HasSubstr;

/// Writes the files of a test into a folder that vanishes with it.
class Extends : public testing::Test {
 protected:
  Extends()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("extends_" + std::string(testing::UnitTest::GetInstance()
                                              ->current_test_info()
                                              ->name()))) {
    std::filesystem::create_directories(folder_ / "below");
  }
  ~Extends() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  static std::string error_of(const std::string& path) {
    try {
      read_config_file(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

TEST_F(Extends, AFileWithoutTheKeyIsReadAsItIs) {
  EXPECT_EQ(read_config_file(write("a.toml", "a = 1\n")).literal(), "{a = 1}");
}

TEST_F(Extends, TheFileItselfWinsKeyByKey) {
  write("base.toml", "[model]\nname = 'mlp'\nwidth = 8\n");
  const std::string path =
      write("a.toml", "extends = 'base.toml'\n[model]\nwidth = 9\n");
  EXPECT_EQ(read_config_file(path).literal(),
            "{model = {name = \"mlp\", width = 9}}");
}

TEST_F(Extends, LaterFilesWinOverEarlierOnes) {
  write("one.toml", "a = 1\nb = 1\n");
  write("two.toml", "b = 2\n");
  const std::string path =
      write("a.toml", "extends = ['one.toml', 'two.toml']\n");
  EXPECT_EQ(read_config_file(path).literal(), "{a = 1, b = 2}");
}

TEST_F(Extends, ListsAreReplaced) {
  write("base.toml", "hidden = [1, 2, 3]\n");
  const std::string path =
      write("a.toml", "extends = ['base.toml']\nhidden = [4]\n");
  EXPECT_EQ(read_config_file(path).literal(), "{hidden = [4]}");
}

TEST_F(Extends, PathsAreRelativeToTheFile) {
  write("base.toml", "a = 1\n");
  write("below/middle.toml", "extends = '../base.toml'\nb = 2\n");
  const std::string path = write("a.toml", "extends = 'below/middle.toml'\n");
  EXPECT_EQ(read_config_file(path).literal(), "{a = 1, b = 2}");
}

TEST_F(Extends, TheSameFileTwiceIsNoCycle) {
  write("base.toml", "a = 1\n");
  write("one.toml", "extends = 'base.toml'\n");
  write("two.toml", "extends = 'base.toml'\n");
  const std::string path =
      write("a.toml", "extends = ['one.toml', 'two.toml']\n");
  EXPECT_EQ(read_config_file(path).literal(), "{a = 1}");
}

TEST_F(Extends, AValueKeepsTheFileItWasWrittenIn) {
  const std::string base = write("base.toml", "\na = 1\n");
  const std::string path = write("a.toml", "extends = 'base.toml'\n");
  EXPECT_THAT(read_config_file(path).find("a")->origin.text(),
              EndsWith("base.toml:2"));
}

TEST_F(Extends, TheTableAboutIsOfNoRunAndNotInherited) {
  write("base.toml", "a = 1\n[about]\nname = 'GPipe'\nkeys = ['a']\n");
  const std::string path =
      write("a.toml", "extends = 'base.toml'\n[about]\nsummary = 'b'\n");
  EXPECT_EQ(read_config_file(path).literal(), "{a = 1}");
}

TEST_F(Extends, TheConfigOfARunWithoutADealHasSharesAsItRanWith) {
  const std::string path =
      write("config.toml", "masks = 2\nreplicas = {count = 2}\n");
  EXPECT_EQ(read_config_file(path).literal(),
            "{masks = 2, replicas = {count = 2}}");
  write("run.json", "{}");
  EXPECT_EQ(read_config_file(path).literal(),
            "{masks = 2, replicas = {count = 2, deal = \"shares\"}}");
  write("config.toml", "masks = 2\nreplicas = {count = 2, deal = 'arrival'}\n");
  EXPECT_EQ(read_config_file(path).literal(),
            "{masks = 2, replicas = {count = 2, deal = \"arrival\"}}");
}

TEST_F(Extends, TheConfigOfARunWithoutMasksHasThoseThatItRanWith) {
  const std::string path = write("config.toml", "seed = 3\n");
  EXPECT_EQ(read_config_file(path).literal(), "{seed = 3}");
  write("run.json", "{}");
  EXPECT_EQ(read_config_file(path).literal(), "{seed = 3, masks = 1}");
  EXPECT_EQ(read_config_file(write("other.toml", "a = 1\n")).literal(),
            "{a = 1}");
  write("config.toml", "masks = 2\n");
  EXPECT_EQ(read_config_file(path).literal(), "{masks = 2}");
}

TEST_F(Extends, ACycleNamesTheChain) {
  write("b.toml", "extends = 'a.toml'\n");
  const std::string path = write("a.toml", "extends = 'b.toml'\n");
  const std::string folder = std::filesystem::canonical(folder_).string();
  EXPECT_EQ(error_of(path), "extends: a file inherits from itself: " + folder +
                                "/a.toml -> " + folder + "/b.toml -> " +
                                folder + "/a.toml");
}

TEST_F(Extends, AMissingFileNamesTheLineThatWantsIt) {
  const std::string path = write("a.toml", "\nextends = 'none.toml'\n");
  EXPECT_EQ(error_of(path), path + ":2: extends: there is no file '" +
                                (folder_ / "none.toml").string() + "'");
}

TEST_F(Extends, AnythingButFilesIsRefused) {
  const std::string path = write("a.toml", "extends = 3\n");
  EXPECT_THAT(error_of(path), HasSubstr("a.toml:1: extends: expected a string "
                                        "or a list of strings, found integer "
                                        "3"));
}

}  // namespace sluice::config_extends_test
