#include "experiments/runs/folder/kept_folder.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  fs::remove(path);  // as everything that writes into a run folder: anew
  std::ofstream(path) << text;
}

class KeptFolderTest : public testing::Test {
 protected:
  KeptFolderTest() {
    fs::create_directory(folder_);
    write(folder_ / "config.toml", "old");
    write(folder_ / "checkpoints/turn-000004/block-1", "weights");
  }

  /// What a start changes: replaced, removed, added.
  void change() const {
    write(folder_ / "config.toml", "new");
    fs::remove_all(folder_ / "checkpoints");
    write(folder_ / "metrics.jsonl", "{}");
  }

  Files files() const {
    Files found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      std::getline(file, found[fs::relative(entry.path(), folder_)]);
    }
    return found;
  }

  const TemporaryFolder scratch_;
  const fs::path folder_ = fs::path(scratch_.path()) / "run";
  const Files old_ = {{"config.toml", "old"},
                      {"checkpoints/turn-000004/block-1", "weights"}};
  const Files changed_ = {{"config.toml", "new"}, {"metrics.jsonl", "{}"}};
};

TEST_F(KeptFolderTest, IsAsItWasWhenTheStartIsRefused) {
  {
    const KeptFolder kept(folder_, /*is_new=*/false, nullptr);
    change();
  }
  EXPECT_EQ(files(), old_);
}

TEST_F(KeptFolderTest, IsAsTheStartMadeItWhenThatIsAccepted) {
  {
    KeptFolder kept(folder_, /*is_new=*/false, nullptr);
    change();
    kept.keep_changes();
  }
  EXPECT_EQ(files(), changed_);
}

TEST_F(KeptFolderTest, IsRemovedWhenItWasNew) {
  { const KeptFolder kept(folder_, /*is_new=*/true, nullptr); }
  EXPECT_FALSE(fs::exists(folder_));
}

// A process that is killed leaves the copy in one of four states, each named.
TEST_F(KeptFolderTest, IsPutBackByTheNextAfterAKill) {
  fs::copy(folder_, fs::path(scratch_.path()) / "copy",
           fs::copy_options::recursive);
  change();
  fs::rename(fs::path(scratch_.path()) / "copy", folder_ / ".sluice-before");
  ASSERT_TRUE(KeptFolder::is_left_in(folder_));
  KeptFolder::put_back(folder_);
  EXPECT_FALSE(KeptFolder::is_left_in(folder_));
  EXPECT_EQ(files(), old_);
}

TEST_F(KeptFolderTest, IsPutBackByTheNextAfterAKillWhileItWasPutBack) {
  fs::create_directory(folder_ / ".sluice-before-putting-back");
  fs::rename(folder_ / "checkpoints",
             folder_ / ".sluice-before-putting-back/checkpoints");
  ASSERT_TRUE(KeptFolder::is_left_in(folder_));
  KeptFolder::put_back(folder_);
  EXPECT_EQ(files(), old_);
}

TEST_F(KeptFolderTest, IsLeftAsItIsAfterAKillBeforeTheCopyWasWhole) {
  write(folder_ / ".sluice-before-making/config.toml", "half");
  ASSERT_FALSE(KeptFolder::is_left_in(folder_));
  KeptFolder::put_back(folder_);
  EXPECT_EQ(files(), old_);
}

TEST_F(KeptFolderTest, IsLeftAsItIsAfterAKillWhileTheCopyWasDropped) {
  write(folder_ / ".sluice-before-dropping/config.toml", "older");
  KeptFolder::put_back(folder_);
  EXPECT_EQ(files(), old_);
}

// Ranks may wait for minutes, in which somebody writes a note beside the run.
TEST_F(KeptFolderTest, LeavesWhatIsNoRunsInAFolder) {
  write(folder_ / "before.txt", "mine");
  {
    const KeptFolder kept(folder_, /*is_new=*/false, nullptr);
    change();
    write(folder_ / "notes.md", "mine too");
  }
  Files all = old_;
  all["before.txt"] = "mine";
  all["notes.md"] = "mine too";
  EXPECT_EQ(files(), all);
}

TEST_F(KeptFolderTest, LeavesWhatIsNoRunsInANewFolder) {
  {
    const KeptFolder kept(folder_, /*is_new=*/true, nullptr);
    write(folder_ / "notes.md", "mine");
  }
  EXPECT_EQ(files(), (Files{{"notes.md", "mine"}}));
}

}  // namespace
}  // namespace sluice
