#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace sluice {

/// The text of errno.
inline std::string errno_text() {
  return std::generic_category().message(errno);
}

}  // namespace sluice
