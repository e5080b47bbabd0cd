#pragma once

#include <memory>
#include <string>

#include "lib/base/files/folder_lock.h"

namespace sluice {

/// Copy of what a run folder holds of a run (is_entry_of_run()) before a start
/// that other ranks may still refuse: put back when this object goes, unless
/// keep_changes() was called. All else there is not touched. A copy of hard
/// links lies in the folder as `.sluice-before`; on file systems without them
/// it is a copy. A file whose name was linked must not be written in place.
///
/// A process that is killed meanwhile leaves the copy: put_back() is called by
/// the process that takes the folder next.
class KeptFolder {
 public:
  /// A folder that was just made for the run is removed instead, unless another
  /// process has put something into it meanwhile. Throws UserError when the
  /// copy can't be made.
  KeptFolder(std::string folder, bool is_new, std::shared_ptr<FolderLock> lock);
  ~KeptFolder();
  KeptFolder(const KeptFolder&) = delete;
  KeptFolder& operator=(const KeptFolder&) = delete;

  /// The start was accepted: what the folder holds now stays. Throws UserError
  /// when the copy can't be dropped.
  void keep_changes();

  /// Puts back what a process that was killed before its run began had kept, if
  /// anything. The caller has the folder's lock. Throws UserError.
  static void put_back(const std::string& folder);
  /// Whether such a process has left something to put back.
  static bool is_left_in(const std::string& folder);

 private:
  const std::string folder_;
  const bool is_new_;
  std::shared_ptr<FolderLock> lock_;
  bool is_kept_ = false;
};

}  // namespace sluice
