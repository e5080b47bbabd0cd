#pragma once

#include <string>

namespace sluice {

/// Nobody else has such a lock on that folder, for as long as this lives; it
/// leaves nothing behind.
class FolderLock {
 public:
  /// Throws UserError when somebody has it, or there is no such folder.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace sluice
