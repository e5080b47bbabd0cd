#pragma once

namespace sluice {

/// A new file in memory, of which nothing is ever executed: systems with
/// vm.memfd_noexec = 2 allow no other. `flags` are memfd_create()'s; the
/// descriptor, or -1 with errno.
int make_memory_file(const char* name, unsigned flags);

}  // namespace sluice
