#pragma once

#include <string>

namespace sluice {

/// While it lives, a signal of a fault (SIGBUS, SIGSEGV, SIGILL, SIGFPE) in
/// this process prints a line that names a plug-in, and ends it with status 1:
/// the loader and a library's initialisers run code that can't throw. One at a
/// time.
class CrashNote {
 public:
  explicit CrashNote(const std::string& plugin);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;
};

}  // namespace sluice
