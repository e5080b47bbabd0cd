#include "lib/base/early_exit.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <dlfcn.h>
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

/// Ends the process before handlers and destructors of objects that threads
/// still use.
void end_early(int status) {
  if (!is_early()) return;
  say_early_end();
  std::fflush(stdout);
  end_process(status == 0 ? 1 : status);
}

void on_quick_exit() {
  end_early(0);
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
  // Destroys nothing that threads use, and passes the status that _Exit() has.
  std::at_quick_exit(on_quick_exit);
}

int reached_end(int status) {
  watched_process = 0;
  return status;
}

}  // namespace sluice

// Functions of the C library: the program's definitions come before its own,
// for all that is loaded.
extern "C" {

void exit(int status) noexcept {
  sluice::end_early(status);
  // At the end of main() the C library calls its own without this one.
  using Exit = void (*)(int);
  const auto exit_of_c_library =
      reinterpret_cast<Exit>(::dlsym(RTLD_NEXT, "exit"));
  exit_of_c_library(status);
  sluice::end_process(status);
}

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
