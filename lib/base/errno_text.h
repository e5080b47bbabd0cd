#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace sluice {

/// What errno says, in words.
inline std::string errno_text() {
  return std::generic_category().message(errno);
}

}  // namespace sluice
