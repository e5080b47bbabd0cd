// A process that shares memory with another is killed: the other reports it,
// and nothing stays behind.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/links/file_descriptor.h"

namespace sluice::shared_kill_test {

using testing::HasSubstr;
namespace fs = std::filesystem;

// Runs tests/transport/helpers/shared_peer.cpp; killed at the end, if not yet.
class Process {
 public:
  Process(std::vector<std::string> arguments, const std::string& folder) {
    int pipe[2] = {-1, -1};
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    out_ = FileDescriptor(pipe[0]);
    const FileDescriptor writes(pipe[1]);
    arguments.insert(arguments.begin(), SLUICE_TEST_SHARED_PEER);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, writes.get(), STDOUT_FILENO);
    ::setenv("TMPDIR", folder.c_str(), 1);
    EXPECT_EQ(::posix_spawn(&pid_, SLUICE_TEST_SHARED_PEER, &files, nullptr,
                            argv.data(), environ),
              0);
    ::unsetenv("TMPDIR");
    ::posix_spawn_file_actions_destroy(&files);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { kill(); }

  // The next line that it prints.
  std::string line() {
    std::string text;
    char letter = 0;
    while (::read(out_.get(), &letter, 1) == 1 && letter != '\n') {
      text += letter;
    }
    return text;
  }
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    exit_code();
  }
  // Waits for its end; -1 when it was killed.
  int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor out_;
};

std::set<fs::path> files_in(const fs::path& folder) {
  return {fs::directory_iterator(folder), fs::directory_iterator()};
}

// A launcher and a worker in their roles, both at work.
class SharedKill : public testing::Test {
 protected:
  SharedKill() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    in_shm_ = files_in("/dev/shm");
  }
  ~SharedKill() override { fs::remove_all(folder_); }

  void begin(const std::string& launcher, const std::string& worker) {
    launcher_ = std::make_unique<Process>(
        std::vector<std::string>{"launch", launcher}, folder_);
    const std::string address = launcher_->line();
    worker_ = std::make_unique<Process>(
        std::vector<std::string>{"join", worker, address}, folder_);
    EXPECT_EQ(launcher_->line(), "going");
    EXPECT_EQ(worker_->line(), "going");
  }
  // The survivor says why, and exits long before its deadline of a minute.
  void expect_told(Process& survivor, const std::string& why) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(survivor.line(), HasSubstr(why));
    EXPECT_EQ(survivor.exit_code(), 3);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(20));
  }
  void expect_nothing_left() {
    EXPECT_TRUE(fs::is_empty(folder_));
    for (const fs::path& file : files_in("/dev/shm")) {
      EXPECT_TRUE(in_shm_.contains(file) ||
                  file.string().find("sluice") == std::string::npos)
          << file;
    }
  }

  std::string folder_ = fs::temp_directory_path() / "slc-kill-XXXXXX";
  std::set<fs::path> in_shm_;
  std::unique_ptr<Process> launcher_;
  std::unique_ptr<Process> worker_;
};

TEST_F(SharedKill, KilledSenderIsReportedToTheReceiver) {
  begin("receive", "send");
  worker_->kill();
  expect_told(*launcher_,
              "the launcher waited for a message from block 1: it is gone");
  expect_nothing_left();
}

TEST_F(SharedKill, KilledReceiverIsReportedToTheSender) {
  begin("send", "receive");
  worker_->kill();
  expect_told(*launcher_,
              "the launcher waited for block 1 to take a message: it is gone");
  expect_nothing_left();
}

TEST_F(SharedKill, KilledLauncherThatSendsIsReportedToTheWorker) {
  begin("send", "receive");
  launcher_->kill();
  expect_told(*worker_,
              "block 1 waited for a message from the launcher: it is gone");
  expect_nothing_left();
}

TEST_F(SharedKill, KilledLauncherThatReceivesIsReportedToTheWorker) {
  begin("receive", "send");
  launcher_->kill();
  expect_told(*worker_,
              "block 1 waited for the launcher to take a message: it is gone");
  expect_nothing_left();
}

TEST_F(SharedKill, KilledReceiverThatHoldsASlotIsReportedToTheSender) {
  begin("send", "hold");
  worker_->kill();
  expect_told(*launcher_,
              "the launcher waited for block 1 to take a message: it is gone");
  expect_nothing_left();
}

TEST_F(SharedKill, KillOfBothLeavesNothing) {
  begin("send", "receive");
  launcher_->kill();
  worker_->kill();
  expect_nothing_left();
}

}  // namespace sluice::shared_kill_test
