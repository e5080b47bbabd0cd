// Issue 18, item 2: one process at a time works in a folder.
#include "lib/base/files/folder_lock.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice::folder_lock_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

class FolderLocks : public testing::Test {
 protected:
  FolderLocks() {
    std::string pattern = fs::temp_directory_path() / "sluice-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FolderLocks() override { fs::remove_all(folder_); }

  /// What somebody has written into the lock file, whose process is gone.
  void leave(const LockHolder& holder) const {
    std::ofstream(lock_file_of(folder_)) << to_text(holder);
  }
  std::string refusal(const LockOptions& options) const {
    try {
      const FolderLock lock(folder_, options);
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  std::string folder_;
};

const LockOptions kAtOnce = {.patience = milliseconds(0)};
const LockOptions kWithoutLocks = {.patience = milliseconds(0),
                                   .has_locks = false};

/// This process, on another machine.
LockHolder elsewhere(double seconds_ago) {
  LockHolder holder = this_holder();
  holder.host = "another.example";
  holder.boot = "00000000-0000-0000-0000-000000000000";
  holder.heartbeat -= seconds_ago;
  return holder;
}

/// A process that has ended.
LockHolder gone() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  LockHolder holder = this_holder();
  holder.pid = pid;
  return holder;
}

TEST_F(FolderLocks, RefuseASecondAndNameTheFirst) {
  const FolderLock lock(folder_);
  EXPECT_THAT(refusal(kAtOnce),
              AllOf(HasSubstr(folder_ + ": another process works there"),
                    HasSubstr(std::to_string(::getpid())),
                    HasSubstr(this_holder().host), HasSubstr(" UTC"),
                    HasSubstr("--dir")));
}

TEST_F(FolderLocks, LeaveNothingBehind) {
  {
    const FolderLock lock(folder_);
    EXPECT_FALSE(fs::is_empty(folder_));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(refusal(kAtOnce), "");
}

TEST_F(FolderLocks, AreWaitedForALittle) {
  auto lock = std::make_unique<FolderLock>(folder_);
  std::thread holder([&] {
    std::this_thread::sleep_for(milliseconds(50));
    lock.reset();
  });
  EXPECT_EQ(refusal({.patience = std::chrono::seconds(60)}), "");
  holder.join();
}

TEST_F(FolderLocks, LocksOfAnotherHostHoldWhileItsHeartbeatIsFresh) {
  leave(elsewhere(5));
  EXPECT_THAT(refusal(kAtOnce),
              AllOf(HasSubstr("another.example"),
                    HasSubstr("remove " + lock_file_of(folder_))));
  EXPECT_TRUE(look_at_lock(folder_).is_held);
}

TEST_F(FolderLocks, LocksOfAnotherHostAreTakenOverWithAWarningWhenItIsNot) {
  leave(elsewhere(3600));
  EXPECT_FALSE(look_at_lock(folder_).is_held);
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal(kAtOnce), "");
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, AllOf(HasSubstr("another.example"),
                             HasSubstr("has not been heard for 36")));
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
}

TEST_F(FolderLocks, LocksOfThisHostBeforeItWasStartedAnewAreTakenOver) {
  LockHolder holder = elsewhere(5);
  holder.host = this_holder().host;
  leave(holder);
  EXPECT_EQ(refusal(kAtOnce), "");
}

TEST_F(FolderLocks, WithoutLocksOfTheKernelHoldAllTheSame) {
  testing::internal::CaptureStderr();
  const LockOptions scratch = {.is_shared = false, .has_locks = false};
  {
    const FolderLock lock(folder_, scratch);
    EXPECT_TRUE(look_at_lock(folder_).is_held);
    EXPECT_NE(refusal(kWithoutLocks), "");
  }
  EXPECT_EQ(refusal(kWithoutLocks), "");
  leave(gone());
  EXPECT_FALSE(look_at_lock(folder_).is_held);
  EXPECT_EQ(refusal(kWithoutLocks), "");
  leave(elsewhere(5));
  EXPECT_NE(refusal(kWithoutLocks), "");
  testing::internal::GetCapturedStderr();
}

TEST_F(FolderLocks, AreFreeWhenTheHolderWasKilledThoughItsChildLives) {
  int ready[2] = {-1, -1};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const FolderLock lock(folder_, {.is_shared = false});
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sleep", "sleep", "60", nullptr);
      ::_exit(1);
    }
    if (::write(ready[1], &child, sizeof child) != sizeof child) ::_exit(1);
    ::pause();
  }
  pid_t child = 0;
  ASSERT_EQ(::read(ready[0], &child, sizeof child),
            static_cast<ssize_t>(sizeof child));
  EXPECT_NE(refusal(kAtOnce), "");
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  // Until its child has become another program.
  for (int i = 0; i < 600 && look_at_lock(folder_).is_held; ++i)
    std::this_thread::sleep_for(milliseconds(100));
  const LockStatus seen = look_at_lock(folder_);
  EXPECT_FALSE(seen.is_held);
  ASSERT_TRUE(seen.holder);
  EXPECT_EQ(seen.holder->pid, holder);
  EXPECT_EQ(refusal(kAtOnce), "");
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

/// Whether this process was alone while it had the lock, so many times.
bool is_alone(const std::string& folder, int times) {
  const std::string mark = folder + "/mark";
  for (int i = 0; i < times; ++i) {
    const FolderLock lock(
        folder, {.patience = std::chrono::minutes(2), .is_shared = false});
    const int file = ::open(mark.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return false;
    ::close(file);
    ::unlink(mark.c_str());
  }
  return true;
}

TEST_F(FolderLocks, LocksOfManyProcessesHoldOneAtATime) {
  constexpr int kProcesses = 6;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(is_alone(folder_, 30) ? 0 : 1);
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(FolderLocks, TellThatTheHolderLives) {
  const FolderLock lock(folder_, {.beat = milliseconds(100)});
  const double before = look_at_lock(folder_).holder->heartbeat;
  double after = before;
  for (int i = 0; i < 600 && after == before; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    if (const auto seen = look_at_lock(folder_).holder) after = seen->heartbeat;
  }
  EXPECT_GT(after, before);
}

TEST_F(FolderLocks, ThatWereTakenOverEndTheirProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const LockHolder other = elsewhere(0);
  EXPECT_EXIT(
      {
        const FolderLock lock(folder_, {.beat = milliseconds(20)});
        // The other process may write a heartbeat just after that.
        for (int i = 0; i < 1200; ++i) {
          leave(other);
          std::this_thread::sleep_for(milliseconds(50));
        }
      },
      testing::ExitedWithCode(1), "was taken over by process");
}

TEST_F(FolderLocks, LocksOfWhatIsNoFolderAreRefused) {
  EXPECT_THROW(FolderLock lock(folder_ + "/none"), UserError);
  EXPECT_FALSE(look_at_lock(folder_ + "/none").is_held);
}

}  // namespace sluice::folder_lock_test
