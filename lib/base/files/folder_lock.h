#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "lib/base/files/lock_holder.h"

namespace sluice {

struct LockOptions {
  /// Advice in the error when another process has the folder.
  std::string remedy = "wait for it or end it, or give another --dir";
  /// How long to wait for a holder that may be about to end.
  std::chrono::milliseconds patience = std::chrono::seconds(1);
  /// Tell other hosts once in a while that this process lives, and the user of
  /// what is odd. A folder that no other host sees doesn't need it.
  bool is_shared = true;
  /// Interval at which the holder shows other processes that it lives.
  std::chrono::milliseconds beat = std::chrono::seconds(5);
  /// Set to false by tests, to behave as on a file system without locks.
  bool has_locks = true;
};

/// A lock on a folder that no other process holds, for as long as this lives.
/// It is an OFD lock on the file `lock` in the folder, which also holds on NFS,
/// and which the kernel gives back when the process ends, however it ends (no
/// child inherits it). The file says who holds it, with a heartbeat: that
/// decides where the kernel of another host can't tell us, or has no locks. The
/// file is removed with this object; what a process that was killed has left of
/// it is taken over.
///
/// A process that finds that another one has taken its folder over, because it
/// was suspended for long, ends at once: it must not write there.
class FolderLock {
 public:
  /// Throws UserError when another process has it, naming that; or there is no
  /// such folder, or it can't be written.
  explicit FolderLock(const std::string& folder,
                      const LockOptions& options = {});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  enum class Try { taken, busy, gone };
  Try try_once();
  bool is_at_path() const;
  void refuse(const std::optional<LockHolder>& holder) const;
  void take_over(const std::optional<LockHolder>& holder);
  void write() const;
  void settle();
  void beat(const std::stop_token& over);
  void end_if_lost() const;
  void release();

  const std::string folder_;
  const LockOptions options_;
  bool has_locks_ = true;
  int descriptor_ = -1;
  LockHolder self_ = this_holder();
  std::jthread heart_;  // last: it uses all of the above
};

/// Path of the file that a folder's lock is on.
std::string lock_file_of(const std::string& folder);

/// The holder of a folder, for a process that only looks and takes no lock.
struct LockStatus {
  bool is_held = false;
  /// The process that holds it, or held it and was killed; nothing: none, or
  /// unknown.
  std::optional<LockHolder> holder = {};
};
LockStatus look_at_lock(const std::string& folder);

}  // namespace sluice
