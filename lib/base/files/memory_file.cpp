#include "lib/base/files/memory_file.h"

#include <cerrno>

#include <sys/mman.h>

namespace sluice {
namespace {

// MFD_NOEXEC_SEAL, which the headers of Debian 12 don't have.
constexpr unsigned kNeverExecuted = 0x0008;

}  // namespace

int make_memory_file(const char* name, unsigned flags) {
  const int file = ::memfd_create(name, flags | kNeverExecuted);
  // Linux before 6.3 doesn't know it.
  if (file < 0 && errno == EINVAL) return ::memfd_create(name, flags);
  return file;
}

}  // namespace sluice
