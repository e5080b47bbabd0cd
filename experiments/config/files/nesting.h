#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// Deeper than any config, plan or record of ours; what recurses over a tree
/// would run out of its stack in one of 60 000 levels.
inline constexpr int kDeepestNesting = 64;

/// Values of a config, with all that it extends and refers to; keys of one of
/// its tables, which are merged in their square; values of a list; and bytes of
/// a key. Files of strangers have more.
inline constexpr std::size_t kMostValues = 100'000;
inline constexpr std::size_t kMostKeys = 2'000;
inline constexpr std::size_t kMostElements = 10'000;
inline constexpr std::size_t kLongestKey = 1'000;

/// Throws UserError "NAME:LINE: ..." when the TOML `text` has a dotted key, or
/// brackets in brackets, of more parts than half of kDeepestNesting, or more
/// than kMostValues values: before the parser makes tables of them. What both
/// kinds of nesting make together it doesn't see.
void check_toml_nesting(std::string_view text, const std::string& name);

}  // namespace sluice
