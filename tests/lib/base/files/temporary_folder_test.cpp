// Issue 18, item 12: what a killed process has left is removed by the next one.
#include "lib/base/files/temporary_folder.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::temporary_folder_test {

namespace fs = std::filesystem;

class TemporaryFolders : public testing::Test {
 protected:
  TemporaryFolders() {
    std::string pattern = fs::temp_directory_path() / "sluice-test-XXXXXX";
    parent_ = ::mkdtemp(pattern.data());
    ::setenv("TMPDIR", parent_.c_str(), 1);
  }
  ~TemporaryFolders() override {
    ::unsetenv("TMPDIR");
    fs::remove_all(parent_);
  }

  /// The folder of a process that was killed.
  static std::string left() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const TemporaryFolder folder;
      const std::string& path = folder.path();
      if (::write(ends[1], path.data(), path.size()) < 0) ::_exit(1);
      ::close(ends[1]);
      ::raise(SIGKILL);
    }
    ::close(ends[1]);
    std::string path(4096, '\0');
    path.resize(
        static_cast<std::size_t>(::read(ends[0], path.data(), path.size())));
    ::close(ends[0]);
    ::waitpid(pid, nullptr, 0);
    return path;
  }

  std::string parent_;
};

TEST_F(TemporaryFolders, AreRemovedWithTheirObject) {
  {
    const TemporaryFolder folder;
    std::ofstream(folder.path() + "/file") << "text";
    EXPECT_FALSE(fs::is_empty(parent_));
  }
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(TemporaryFolders, FoldersOfKilledProcessesAreRemovedByTheNext) {
  const std::string dead = left();
  ASSERT_TRUE(fs::is_directory(dead)) << dead;
  const TemporaryFolder folder;
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST_F(TemporaryFolders, FoldersOfOtherProgramsStay) {
  const TemporaryFolder living;
  const std::string of_nobody = parent_ + "/sluice-tmp-nobody";
  fs::create_directory(of_nobody);  // no lock: we don't know
  fs::permissions(of_nobody, fs::perms::owner_all);
  const std::string of_other_boot = parent_ + "/sluice-tmp-reboot";
  fs::create_directory(of_other_boot);
  fs::permissions(of_other_boot, fs::perms::owner_all);
  LockHolder other = this_holder();
  other.boot = "another";
  other.heartbeat = 0;
  std::ofstream(lock_file_of(of_other_boot)) << to_text(other);
  const TemporaryFolder folder;
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_TRUE(fs::exists(of_nobody));
  EXPECT_TRUE(fs::exists(of_other_boot));
}

// A run's lock looks the same, and `--dir` may name any folder there.
TEST_F(TemporaryFolders, AreToldFromRunsThatWereKilled) {
  const std::string dead = left();
  for (const char* name : {"sluice-mnist", "sluice-tmp-mnist"}) {
    fs::create_directory(parent_ + "/" + name);
    fs::permissions(parent_ + "/" + name, fs::perms::owner_all);
    fs::copy(lock_file_of(dead), parent_ + "/" + name);
  }
  const TemporaryFolder folder;
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(parent_ + "/sluice-mnist"));
  EXPECT_TRUE(fs::exists(parent_ + "/sluice-tmp-mnist"));
}

// A process that was killed before it had locked the folder, or while it
// removed it.
TEST_F(TemporaryFolders, WithoutALockAreRemovedAMinuteLater) {
  const std::string left = parent_ + "/sluice-tmp-abcdef";
  fs::create_directory(left);
  fs::permissions(left, fs::perms::owner_all);
  { const TemporaryFolder next; }
  EXPECT_TRUE(fs::exists(left));
  fs::last_write_time(
      left, fs::file_time_type::clock::now() - std::chrono::seconds(61));
  { const TemporaryFolder next; }
  EXPECT_FALSE(fs::exists(left));
}

}  // namespace sluice::temporary_folder_test
