#pragma once

#include <cstdint>

namespace sluice {

/// What this process, all its threads, has asked of the system so far. Counted
/// in this program's own definitions of the functions of libc that the
/// transport calls, which call libc's.
struct SystemCalls {
  std::int64_t calls = 0;        ///< that had something to do
  std::int64_t bytes = 0;        ///< that the kernel copied for them
  std::int64_t wake_ups = 0;     ///< of threads that had waited
  std::int64_t allocations = 0;  ///< by operator new

  SystemCalls operator-(const SystemCalls& other) const;
};

SystemCalls system_calls_so_far();

}  // namespace sluice
