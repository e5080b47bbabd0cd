#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Deeper than any config, plan or record of ours; what recurses over a tree
/// would run out of its stack in one of 60 000 levels.
inline constexpr int kDeepestNesting = 64;

/// Throws UserError "NAME:LINE: ..." when the TOML `text` has a dotted key, or
/// brackets in brackets, of more parts than half of that: before the parser
/// makes tables of them. What both make together it doesn't see.
void check_toml_nesting(std::string_view text, const std::string& name);

}  // namespace sluice
