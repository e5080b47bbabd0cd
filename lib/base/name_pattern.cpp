#include "lib/base/name_pattern.h"

#include <algorithm>

#include <fnmatch.h>

namespace sluice {

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns,
                 const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) {
                       return matches_pattern(pattern, name);
                     });
}

}  // namespace sluice
