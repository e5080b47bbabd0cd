#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// The path of `root`/`folder`/`name`, or of the same with ".gz". Throws
/// UserError that says where it was looked for and how to name the root.
std::string find_data_file(const std::string& root, const std::string& folder,
                           const std::string& name);

/// All bytes of a file, decompressed when it is gzipped. Throws UserError when
/// it can't be read, or when a gzipped one is truncated or damaged.
std::vector<std::uint8_t> read_data_file(const std::string& path);

}  // namespace sluice
