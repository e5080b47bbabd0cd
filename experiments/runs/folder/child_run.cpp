#include "experiments/runs/folder/child_run.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/memory_file.h"
#include "lib/base/stopping_signals.h"

namespace sluice {
namespace {

constexpr std::string_view kVisibleGpus = "CUDA_VISIBLE_DEVICES=";

/// Keeps this thread on those cores while it lives. Processes that it starts
/// then stay there, with all threads from the first on.
class PinnedThread {
 public:
  explicit PinnedThread(const std::vector<int>& cores) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    if (cores.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
    ::sched_setaffinity(0, sizeof set, &set);
  }
  ~PinnedThread() { ::sched_setaffinity(0, sizeof before_, &before_); }
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  cpu_set_t before_ = {};
};

std::vector<std::string> environment_with(const std::string& gpu) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (gpu.empty() || !std::string_view(*entry).starts_with(kVisibleGpus))
      variables.emplace_back(*entry);
  if (!gpu.empty()) variables.push_back(std::string(kVisibleGpus) + gpu);
  return variables;
}

/// What a child starts with: its standard streams, a process group of its own,
/// and what stops a run blocked until it has StopSignals.
class SpawnSettings {
 public:
  SpawnSettings(int input, int errors) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_adddup2(&files_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null",
                                       O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files_, errors, STDERR_FILENO);
    const sigset_t held = stopping_signals();
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &held);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&files_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_ = {};
  posix_spawnattr_t attributes_ = {};
};

/// The last line that says something: a launcher of workers may only say that
/// one of them has said it.
std::string error_in(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  std::string before;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    before = std::exchange(last, line);
  }
  return last.ends_with("it said why above") && !before.empty() ? before : last;
}

}  // namespace

MemoryFile::MemoryFile(const std::string& text)
    : descriptor_(make_memory_file("sluice-sweep", MFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw UserError("no file in memory can be made: {}", errno_text());
  if (::write(descriptor_, text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    ::close(descriptor_);
    throw UserError("a file in memory can't be written: {}", errno_text());
  }
  ::lseek(descriptor_, 0, SEEK_SET);
}

MemoryFile::~MemoryFile() {
  ::close(descriptor_);
}

std::string MemoryFile::text() const {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::pread(descriptor_, buffer.data(), buffer.size(),
                                   static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  return text;
}

ChildRun::ChildRun(const std::vector<std::string>& argv,
                   const std::string& input, const MachineShare& share)
    : input_(input) {
  const SpawnSettings settings(input_.descriptor(), errors_.descriptor());
  const std::vector<std::string> environment = environment_with(share.gpu);
  const PinnedThread pinned(share.cores);
  const int failed = ::posix_spawn(
      &pid_, argv[0].c_str(), settings.files(), settings.attributes(),
      pointers_to(argv).data(), pointers_to(environment).data());
  if (failed != 0)
    throw UserError("a run can't be started: {}: {}", argv[0],
                    std::generic_category().message(failed));
}

ChildRun::~ChildRun() {
  if (end_) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ChildEnd> ChildRun::poll() {
  if (end_) return end_;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == pid_) end_ = end_of(status);
  if (ended < 0 && errno == ECHILD)
    end_ = {.status = -1,
            .error = "nobody knows how it ended: SIGCHLD is ignored here"};
  return end_;
}

ChildEnd ChildRun::end_of(int status) const {
  ChildEnd end{.error = error_in(errors_.text())};
  if (WIFEXITED(status)) {
    end.status = WEXITSTATUS(status);
    return end;
  }
  end.status = -1;
  end.signal = WTERMSIG(status);
  const char* const name = ::sigdescr_np(end.signal);
  end.signal_text =
      fmt::format("{} ({})", end.signal, name == nullptr ? "no name" : name);
  return end;
}

void ChildRun::stop() {
  if (!end_ && !std::exchange(is_told_, true)) ::kill(pid_, SIGTERM);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

std::vector<std::vector<int>> divided(const std::vector<int>& cores,
                                      int slots) {
  std::vector<std::vector<int>> parts(static_cast<std::size_t>(slots));
  const std::size_t count = parts.size();
  for (std::size_t slot = 0; slot < count; ++slot) {
    if (cores.size() < count) {
      if (!cores.empty()) parts[slot] = {cores[slot % cores.size()]};
      continue;
    }
    const auto begin = cores.begin();
    parts[slot].assign(
        begin + static_cast<std::ptrdiff_t>(slot * cores.size() / count),
        begin + static_cast<std::ptrdiff_t>((slot + 1) * cores.size() / count));
  }
  return parts;
}

}  // namespace sluice
