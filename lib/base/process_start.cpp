#include "lib/base/process_start.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/stopping_signals.h"

namespace sluice {
namespace {

/// The lowest descriptor that is free is the one that is opened.
void open_if_closed(int stream) {
  if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) return;
  if (::open("/dev/null", O_RDWR) != stream) std::abort();
}

}  // namespace

void begin_process() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    open_if_closed(stream);
  std::signal(SIGCHLD, SIG_DFL);
  ignore_noted_signals();
}

}  // namespace sluice
