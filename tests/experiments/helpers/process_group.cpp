#include "tests/experiments/helpers/process_group.h"

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice {

ProcessGroup::ProcessGroup(const std::string& command,
                           const std::string& output) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string shell = "/bin/sh";
  std::string option = "-c";
  std::string line = "exec " + command;
  char* const arguments[] = {shell.data(), option.data(), line.data(), nullptr};
  EXPECT_EQ(::posix_spawn(&leader_, shell.c_str(), &files, &attributes,
                          arguments, environ),
            0);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
}

ProcessGroup::~ProcessGroup() {
  signal(SIGKILL);
  if (!over_) ::waitpid(leader_, nullptr, 0);
}

void ProcessGroup::signal(int number) const {
  ::kill(-leader_, number);
}

void ProcessGroup::signal_leader(int number) const {
  if (!over_) ::kill(leader_, number);
}

bool ProcessGroup::is_over() {
  if (!over_) over_ = ::waitpid(leader_, &status_, WNOHANG) == leader_;
  return over_;
}

int ProcessGroup::wait(std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (!is_over()) {
    if (std::chrono::steady_clock::now() > until) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* const given = std::getenv(name);
  return given != nullptr ? static_cast<unsigned>(std::stoul(given))
                          : otherwise;
}

unsigned random_seed() {
  const unsigned seed = from_environment("SLUICE_SEED", std::random_device()());
  fmt::print("SLUICE_SEED={}\n", seed);
  return seed;
}

}  // namespace sluice
