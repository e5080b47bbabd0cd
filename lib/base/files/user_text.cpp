#include "lib/base/files/user_text.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr int kUnknown = -1;

/// Number of the first error in writing to stdout; 0: none.
std::atomic<int> failure = 0;

/// A pipe whose reader has ended, or a terminal that is closed.
bool is_reader_gone(int reason) {
  struct stat status = {};
  return reason == EPIPE ||
         (reason == EIO && ::fstat(STDOUT_FILENO, &status) == 0 &&
          S_ISCHR(status.st_mode));
}

void drop_output_from_now_on() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

}  // namespace

void note_output_failure(int reason) noexcept {
  ::__fpurge(stdout);
  std::clearerr(stdout);
  if (is_reader_gone(reason)) return drop_output_from_now_on();
  int none = 0;
  failure.compare_exchange_strong(none, reason == 0 ? kUnknown : reason);
}

void put_text(std::string_view text) noexcept {
  errno = 0;
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0;
  if (!is_written) note_output_failure(errno);
}

void say_text(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void finish_output() {
  errno = 0;
  const bool was_refused = std::ferror(stdout) != 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || was_refused || !std::cout)
    note_output_failure(errno);
  const int reason = failure;
  if (reason == 0) return;
  throw Error(reason == kUnknown
                  ? "stdout: not all of the output could be written"
                  : fmt::format("stdout: can't be written: {}",
                                std::generic_category().message(reason)));
}

}  // namespace sluice
