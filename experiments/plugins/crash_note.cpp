#include "experiments/plugins/crash_note.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace sluice {
namespace {

constexpr std::array kFaults = {SIGBUS, SIGSEGV, SIGILL, SIGFPE};

/// Made before anything can fail: a handler may not allocate.
std::array<char, 1024> line = {};
std::array<struct sigaction, kFaults.size()> before = {};

void say_and_end(int /*signal*/) {
  const std::string_view text = line.data();
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
  std::_Exit(1);
}

}  // namespace

CrashNote::CrashNote(const std::string& plugin) {
  const auto end = fmt::format_to_n(
      line.data(), line.size() - 1,
      "sluice: {:.600}: the process was ended by a fault while this library "
      "was loaded and registered its parts: it, or a library that it needs, is "
      "damaged or has an error; build it anew\n",
      plugin);
  *end.out = '\0';
  struct sigaction action = {};
  action.sa_handler = say_and_end;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kFaults.size(); ++i)
    ::sigaction(kFaults[i], &action, &before[i]);
}

CrashNote::~CrashNote() {
  for (std::size_t i = 0; i < kFaults.size(); ++i)
    ::sigaction(kFaults[i], &before[i], nullptr);
}

}  // namespace sluice
