#pragma once

#include <string>

namespace sluice {

/// In lower-case hexadecimal. Throws UserError when the file can't be read.
std::string sha256_of_file(const std::string& path);

}  // namespace sluice
