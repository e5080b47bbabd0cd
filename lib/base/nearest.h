#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// " (did you mean 'x'?)" with the name nearest to `word` by edit distance, or
/// nothing when none is near enough to be a slip of the finger.
std::string perhaps(std::string_view word, std::span<const std::string> names);

/// Names in a list: "a, b, c".
std::string joined(std::span<const std::string> names);

}  // namespace sluice
