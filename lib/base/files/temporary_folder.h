#pragma once

#include <optional>
#include <string>

#include "lib/base/files/folder_lock.h"

namespace sluice {

/// The system's temporary folder (TMPDIR). Throws UserError when it is none.
std::string temporary_root();

/// Whether a folder, which lasts no longer than the process that has it locked
/// (FolderLock), is of a process of this user that was killed for sure: it ran
/// on this machine, and its lock is free; or it didn't lock it for a minute.
bool is_left(const std::string& folder);

/// An empty folder of its own (mode 0700) in the system's temporary folder,
/// removed with all that is in it. Folders that killed processes of this user
/// have left there are removed first; a free lock tells them from folders in
/// use.
class TemporaryFolder {
 public:
  /// Makes the folder. Throws UserError when it can't be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<FolderLock> lock_;
};

}  // namespace sluice
