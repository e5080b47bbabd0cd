#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Whether a name of a parameter or a layer has the pattern: *, ? and [...], as
/// in the names of files in a shell, where * also takes dots.
bool matches_pattern(const std::string& pattern, const std::string& name);
/// Whether it has one of them.
bool matches_any(const std::vector<std::string>& patterns,
                 const std::string& name);

}  // namespace sluice
