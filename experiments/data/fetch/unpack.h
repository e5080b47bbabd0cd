#pragma once

#include <string>

namespace sluice {

/// Writes the files of a .tar.gz below `folder`, which is there. Throws
/// UserError when the archive is damaged, holds anything but files and folders
/// or a path that leaves the folder, or when a file can't be written.
void unpack(const std::string& archive, const std::string& folder);

}  // namespace sluice
