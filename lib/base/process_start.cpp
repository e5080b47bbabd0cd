#include "lib/base/process_start.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <initializer_list>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/stopping_signals.h"

namespace sluice {
namespace {

/// The lowest descriptor that is free is the one that is opened.
void open_if_closed(int stream) {
  if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) return;
  if (::open("/dev/null", O_RDWR) != stream) std::abort();
}

/// Data in many files keep one open each. Where a limit can't be raised, the
/// error that names a file says what to do.
void allow_many_files() {
  constexpr rlim_t kFiles = 65'536;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFiles)
    return;
  limit.rlim_cur = std::min(kFiles, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void begin_process() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    open_if_closed(stream);
  std::signal(SIGCHLD, SIG_DFL);
  ignore_noted_signals();
  allow_many_files();
}

}  // namespace sluice
