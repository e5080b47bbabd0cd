#include "lib/base/early_exit.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice {
namespace {

/// The process that is watched; 0: none.
std::atomic<pid_t> watched_process = 0;
/// The line to print, made early: an end may come where nothing can be
/// allocated.
char line_of_end[256] = {};

[[noreturn]] void end_process(int status) {
  for (;;) ::syscall(SYS_exit_group, status);
}

bool is_early() {
  return watched_process.load() == ::getpid();
}

/// Reports an early end once, on whichever way it comes.
void say_early_end() {
  watched_process = 0;
  const std::string_view text = line_of_end;
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
}

/// Ends the process before the destructors of objects that threads still use.
void on_exit_of_process(int status, void* /*none*/) {
  if (!is_early()) return;
  say_early_end();
  std::fflush(stdout);
  end_process(status == 0 ? 1 : status);
}

void on_quick_exit() {
  on_exit_of_process(0, nullptr);
}

}  // namespace

void watch_for_early_exit(const std::string& program) {
  const auto end = fmt::format_to_n(
      line_of_end, sizeof line_of_end - 1,
      "{}: this process was ended by a call of exit() before its command had "
      "reached the end: a plug-in or a library did that; what was left to do "
      "is not done\n",
      program);
  *end.out = '\0';
  watched_process = ::getpid();
  // Handlers run last to first: those of what is loaded later come before.
  ::on_exit(on_exit_of_process, nullptr);
  std::at_quick_exit(on_quick_exit);
}

int reached_end(int status) {
  watched_process = 0;
  return status;
}

}  // namespace sluice

// Functions of the C library that run no handlers: the program's definitions
// come before its own, for all that is loaded.
extern "C" {

void _exit(int status) {
  if (status == 0 && sluice::is_early()) {
    sluice::say_early_end();
    status = 1;
  }
  sluice::end_process(status);
}

void _Exit(int status) noexcept {
  ::_exit(status);
}
}
