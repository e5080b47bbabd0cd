#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// SHA-256 of a file in lower-case hexadecimal. Throws UserError when the file
/// can't be read.
std::string sha256_of_file(const std::string& path);
std::string sha256_of(std::string_view bytes);

}  // namespace sluice
