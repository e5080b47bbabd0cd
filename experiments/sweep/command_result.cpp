#include "experiments/sweep/command_result.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/runs/folder/child_run.h"
#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

/// The streams of a command.
class Streams {
 public:
  Streams(int out, int err) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null",
                                       O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
  }
  ~Streams() { ::posix_spawn_file_actions_destroy(&actions_); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_ = {};
};

}  // namespace

CommandResult captured(const std::vector<std::string>& argv) {
  const MemoryFile out;
  const MemoryFile err;
  const Streams streams(out.descriptor(), err.descriptor());
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0].c_str(), streams.actions(),
                                    nullptr, pointers_to(argv).data(), environ);
  if (failed != 0)
    throw UserError("{} can't be started: {}", argv[0],
                    std::generic_category().message(failed));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = out.text(),
          .err = err.text()};
}

}  // namespace sluice::sweep
