#pragma once

#include <string>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {

/// Throws the UserError for a TorchScript file that does what a network of a
/// stranger has no need of.
template <class... Args>
[[noreturn]] void refuse_script(const std::string& file,
                                fmt::format_string<Args...> text,
                                Args&&... args) {
  throw UserError(
      "{}: {}; model.trust = true reads it all the same: then it may do what "
      "this program may",
      file, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace sluice
