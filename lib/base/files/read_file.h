#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// All of a regular file. Throws UserError with the path when there is none,
/// when it is a folder, a fifo or a device, which may never end, or when it has
/// more than `most` bytes.
std::string read_file(const std::string& path, std::uint64_t most);

/// Throws the same UserErrors; for files that are read piece by piece.
void check_regular_file(const std::string& path);

}  // namespace sluice
