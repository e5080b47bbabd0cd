#pragma once

#include <optional>
#include <string>

#include "lib/base/folder_lock.h"

namespace sluice {

/// The system's temporary folder (TMPDIR). Throws UserError when it is none.
std::string temporary_root();

/// An empty folder of its own (mode 0700) in the system's temporary folder,
/// removed with all that is in it. Those that processes of this user have left
/// there because they were killed are removed first: each holds a lock.
class TemporaryFolder {
 public:
  /// Throws UserError when it can't be made.
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
