#include "experiments/sweep/folder_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/base/errno_text.h"
#include "lib/base/error.h"

namespace sluice {

FolderLock::FolderLock(const std::string& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw UserError("{}: can't be opened: {}", folder, errno_text());
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const bool is_taken = errno == EWOULDBLOCK;
  const std::string reason = errno_text();
  ::close(descriptor_);
  if (is_taken)
    throw UserError(
        "{}: another sluice sweep works there; wait for it, or give another "
        "--dir",
        folder);
  throw UserError("{}: can't be locked: {}", folder, reason);
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

}  // namespace sluice
