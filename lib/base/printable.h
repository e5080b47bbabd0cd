#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// `text` as a terminal may show it, in one line: control characters, the marks
/// that turn the direction of writing, and bytes that are no UTF-8 are escaped
/// (\n, \x1b, \u202e); numbers of more than 60 digits are cut. What users,
/// files and peers wrote is in every error.
std::string printable(std::string_view text);

}  // namespace sluice
