#include "experiments/runs/folder/limited_command.h"

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/runs/folder/child_run.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using CommandClock = std::chrono::steady_clock;

/// A process with a group of its own, so that its children end with it.
class LimitedChild {
 public:
  LimitedChild(const std::vector<std::string>& argv,
               const std::vector<std::string>& environment, int out) {
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    const auto null = [&](int descriptor, int mode) {
      ::posix_spawn_file_actions_addopen(&files, descriptor, "/dev/null", mode,
                                         0);
    };
    null(STDIN_FILENO, O_RDONLY);
    ::posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    null(STDERR_FILENO, O_WRONLY);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none;  // is blocked, whatever is here
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    error_ = ::posix_spawnp(&pid_, argv[0].c_str(), &files, &attributes,
                            pointers_to(argv).data(),
                            pointers_to(environment).data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    is_running_ = error_ == 0;
  }
  ~LimitedChild() {
    if (!is_running_) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  LimitedChild(const LimitedChild&) = delete;
  LimitedChild& operator=(const LimitedChild&) = delete;

  /// Error number of a command that couldn't be started; 0: it was.
  int error() const { return error_; }

  bool has_ended() {
    int status = 0;
    if (!is_running_ || ::waitpid(pid_, &status, WNOHANG) == 0)
      return !is_running_;
    is_running_ = false;
    is_good_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return true;
  }
  bool is_good() const { return is_good_; }

 private:
  pid_t pid_ = -1;
  int error_ = 0;
  bool is_running_ = false;
  bool is_good_ = false;
};

std::int64_t bytes_in(const MemoryFile& file) {
  struct stat status = {};
  return ::fstat(file.descriptor(), &status) == 0 ? status.st_size : 0;
}

}  // namespace

CommandEnd run_limited(const std::vector<std::string>& argv,
                       const std::vector<std::string>& environment,
                       const CommandLimits& limits) {
  constexpr std::chrono::milliseconds kLook(2);
  const MemoryFile out;
  LimitedChild child(argv, environment, out.descriptor());
  if (child.error() != 0)
    return {.failure =
                fmt::format("{} can't be started: {}", argv[0],
                            std::generic_category().message(child.error()))};
  const auto until = CommandClock::now() + limits.time;
  while (!child.has_ended()) {
    if (CommandClock::now() > until)
      return {.failure = fmt::format(
                  "{} took longer than {:g} s", argv[0],
                  std::chrono::duration<double>(limits.time).count())};
    if (bytes_in(out) > limits.bytes) break;
    std::this_thread::sleep_for(kLook);
  }
  if (bytes_in(out) > limits.bytes)
    return {.failure = fmt::format("{} wrote more than {} bytes", argv[0],
                                   limits.bytes)};
  if (!child.is_good()) return {.failure = fmt::format("{} failed", argv[0])};
  return {.out = out.text()};
}

}  // namespace sluice
