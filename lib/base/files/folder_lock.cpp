#include "lib/base/files/folder_lock.h"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kBetweenTries(20);
/// Time that another process may need to write its name, where there are no
/// locks.
constexpr std::chrono::milliseconds kSettling(500);

enum class Kernel { taken, busy, has_none };

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool means_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS ||
         error == EINVAL;
}

/// Closes what can't be locked.
Kernel lock(int descriptor, const std::string& path) {
  struct flock whole = whole_file();
  if (::fcntl(descriptor, F_OFD_SETLK, &whole) == 0) return Kernel::taken;
  if (errno == EAGAIN || errno == EACCES) return Kernel::busy;
  if (means_no_locks(errno)) return Kernel::has_none;
  const std::string reason = errno_text();
  ::close(descriptor);
  throw UserError("{}: can't be locked: {}", path, reason);
}

/// Whether another process has it; a kernel that doesn't know says no.
bool is_locked(int descriptor) {
  struct flock whole = whole_file();
  return ::fcntl(descriptor, F_OFD_GETLK, &whole) == 0 &&
         whole.l_type != F_UNLCK;
}

std::optional<LockHolder> holder_in(int descriptor) {
  std::array<char, 1024> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return parse_lock_holder({text.data(), static_cast<std::size_t>(size)});
}

void warn(const std::string& text) {
  say("sluice: {}\n", text);
}

}  // namespace

std::string lock_file_of(const std::string& folder) {
  return folder + "/lock";
}

FolderLock::FolderLock(const std::string& folder, const LockOptions& options)
    : folder_(folder), options_(options), has_locks_(options.has_locks) {
  const auto until = std::chrono::steady_clock::now() + options_.patience;
  while (true) {
    const Try result = try_once();
    if (result == Try::taken) break;
    const auto holder = holder_in(descriptor_);
    ::close(std::exchange(descriptor_, -1));
    if (result == Try::gone) continue;
    if (std::chrono::steady_clock::now() >= until) refuse(holder);
    std::this_thread::sleep_for(kBetweenTries);
  }
  if (options_.is_shared)
    heart_ = std::jthread([this](const std::stop_token& over) { beat(over); });
}

FolderLock::~FolderLock() {
  heart_.request_stop();
  if (heart_.joinable()) heart_.join();
  release();
}

FolderLock::Try FolderLock::try_once() {
  const std::string path = lock_file_of(folder_);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw UserError("{}: can't be opened: {}", path, errno_text());
  if (has_locks_) {
    const Kernel kernel = lock(descriptor_, path);
    if (kernel == Kernel::busy) return Try::busy;
    has_locks_ = kernel == Kernel::taken;
    if (!has_locks_ && options_.is_shared)
      warn(fmt::format(
          "{}: its file system has no locks; {} alone tells two processes "
          "there apart",
          folder_, path));
  }
  // The former holder may have removed the file between open() and lock().
  if (!is_at_path()) return Try::gone;
  const auto before = holder_in(descriptor_);
  // A lock that the kernel gave us is no other process's of this host.
  const bool is_known_dead =
      !before || (has_locks_ && is_of_this_boot(*before));
  if (!is_known_dead && may_live(*before)) return Try::busy;
  take_over(before);
  return Try::taken;
}

bool FolderLock::is_at_path() const {
  struct stat ours = {};
  struct stat there = {};
  return ::fstat(descriptor_, &ours) == 0 &&
         ::stat(lock_file_of(folder_).c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

void FolderLock::refuse(const std::optional<LockHolder>& holder) const {
  if (!holder)
    throw UserError("{}: another process works there; {}", folder_,
                    options_.remedy);
  const std::string otherwise =
      is_of_this_boot(*holder)
          ? ""
          : fmt::format("; if it is dead for sure, remove {}",
                        lock_file_of(folder_));
  throw UserError("{}: another process works there ({}); {}{}", folder_,
                  describe(*holder), options_.remedy, otherwise);
}

void FolderLock::take_over(const std::optional<LockHolder>& holder) {
  if (holder && !is_of_this_boot(*holder) && options_.is_shared)
    warn(fmt::format(
        "{}: was held by {}; it has not been heard for {:.0f} s, "
        "and is taken for dead",
        folder_, describe(*holder), self_.heartbeat - holder->heartbeat));
  try {
    if (::ftruncate(descriptor_, 0) != 0)
      throw UserError("{}: can't be written: {}", lock_file_of(folder_),
                      errno_text());
    write();
  } catch (...) {  // a full disk: it stays as free as it was
    ::unlink(lock_file_of(folder_).c_str());
    ::close(std::exchange(descriptor_, -1));
    throw;
  }
  if (!has_locks_) settle();
}

void FolderLock::write() const {
  const std::string text = to_text(self_);
  if (::pwrite(descriptor_, text.data(), text.size(), 0) !=
      static_cast<ssize_t>(text.size()))
    throw UserError("{}: can't be written: {}", lock_file_of(folder_),
                    errno_text());
  // Written through: other hosts see only what has reached the server.
  if (options_.is_shared) ::fdatasync(descriptor_);
}

/// Without locks of the file system: waits until all that came at once have
/// written; the last to write has the folder, the others throw UserError.
void FolderLock::settle() {
  std::this_thread::sleep_for(kSettling);
  const LockStatus seen = look_at_lock(folder_);
  if (seen.holder && is_same_process(*seen.holder, self_)) return;
  ::close(std::exchange(descriptor_, -1));
  refuse(seen.holder);
}

void FolderLock::beat(const std::stop_token& over) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any ended;
  bool is_said = false;
  while (true) {
    ended.wait_for(lock, over, options_.beat, [] { return false; });
    if (over.stop_requested()) return;
    self_.heartbeat = this_holder().heartbeat;
    end_if_lost();
    try {
      write();
    } catch (const UserError& error) {
      if (!std::exchange(is_said, true)) warn(error.what());
    }
  }
}

void FolderLock::end_if_lost() const {
  const LockStatus seen = look_at_lock(folder_);
  if (!seen.holder || is_same_process(*seen.holder, self_)) return;
  warn(
      fmt::format("{}: was taken over by {}, while this process was not "
                  "heard; it ends, and writes no more there",
                  folder_, describe(*seen.holder)));
  std::_Exit(1);
}

void FolderLock::release() {
  if (descriptor_ < 0) return;
  const auto holder = holder_in(descriptor_);
  if (is_at_path() && holder && is_same_process(*holder, self_))
    ::unlink(lock_file_of(folder_).c_str());
  ::close(std::exchange(descriptor_, -1));
}

LockStatus look_at_lock(const std::string& folder) {
  const int descriptor =
      ::open(lock_file_of(folder).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {};
  LockStatus seen{.holder = holder_in(descriptor)};
  seen.is_held =
      is_locked(descriptor) || (seen.holder && may_live(*seen.holder));
  ::close(descriptor);
  return seen;
}

}  // namespace sluice
