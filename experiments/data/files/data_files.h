#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// The path of `root`/`folder`/`name`, or of the same with ".gz"; where `name`
/// is absolute it stands alone. Throws UserError that says where it was looked
/// for and how to name the root.
std::string find_data_file(const std::string& root, const std::string& folder,
                           const std::string& name);

/// The path of the folder `root`/`folder`, or of `folder` where it is absolute.
/// Throws UserError likewise.
std::string find_data_folder(const std::string& root,
                             const std::string& folder);

/// All bytes of a file, decompressed when it is gzipped. Throws UserError when
/// it can't be read, when a gzipped one is truncated, damaged or inflates to
/// more than any data of ours does, and after `most` bytes.
std::vector<std::uint8_t> read_data_file(
    const std::string& path,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// The first `bytes` of a file, or all where it is shorter.
std::vector<std::uint8_t> read_data_head(const std::string& path,
                                         std::size_t bytes);

/// Goes through them piece by piece, for a file of any size.
void scan_data_file(
    const std::string& path,
    const std::function<void(std::span<const std::uint8_t>)>& take);

/// Number of bytes; a gzipped file is read to its end for it.
std::uint64_t data_file_size(const std::string& path);

bool is_gzipped(const std::string& path);

}  // namespace sluice
