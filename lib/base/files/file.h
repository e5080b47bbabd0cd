#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace sluice {

/// Writes a file so that its place holds the old file or the whole new one,
/// whatever happens: beside it, synced, then renamed. Throws UserError with the
/// path and the system's reason (a full disk, say); the old file then stands.
void write_file_atomically(const std::string& path,
                           const std::function<void(std::ostream&)>& write);

/// Waits until a file's bytes, or a folder's entries, are on the disk. Throws
/// UserError with the path and the system's reason.
void sync_to_disk(const std::string& path);

}  // namespace sluice
