#pragma once

#include <string>

namespace sluice {

/// The user's folder for what can be made again: sluice in $XDG_CACHE_HOME, or
/// in ~/.cache; "" where neither is known.
std::string user_cache();

}  // namespace sluice
