#include "transport/links/event_fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"

namespace sluice {
namespace {

// A pipe or a socket could end this process with a signal, or block it.
bool is_bell(int descriptor) {
  struct stat status = {};
  const int flags = ::fcntl(descriptor, F_GETFL);
  return ::fstat(descriptor, &status) == 0 && (status.st_mode & S_IFMT) == 0 &&
         flags >= 0 && (flags & O_NONBLOCK) != 0;
}

}  // namespace

EventFd::EventFd() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) {
    throw UserError(
        "no eventfd could be made: {}; raise the limit of open files "
        "(ulimit -n)",
        errno_text());
  }
}

EventFd::EventFd(FileDescriptor from_peer) : event_(std::move(from_peer)) {
  if (!is_bell(event_.get())) {
    throw LinkError("it offers something else than an eventfd to wake it with");
  }
}

FileDescriptor EventFd::copy() const {
  FileDescriptor copy(::fcntl(event_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy)
    throw UserError("no descriptor is left for a link over shared memory: {}",
                    errno_text());
  return copy;
}

void EventFd::ring() const {
  const std::uint64_t one = 1;
  // write() fails once the counter is full, and the bell rings even so.
  [[maybe_unused]] const ssize_t ignored =
      ::write(event_.get(), &one, sizeof one);
}

void EventFd::clear() const {
  clear_bell(event_.get());
}

void EventFd::sleep(const EventFd& other,
                    std::chrono::nanoseconds at_most) const {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  std::array<pollfd, 2> waits{
      pollfd{.fd = event_.get(), .events = POLLIN, .revents = 0},
      pollfd{.fd = other.event_.get(), .events = POLLIN, .revents = 0}};
  const auto limit = std::clamp(ceil<milliseconds>(at_most), milliseconds(0),
                                milliseconds(std::chrono::hours(24)));
  ::poll(waits.data(), waits.size(), static_cast<int>(limit.count()));
}

void clear_bell(int descriptor) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored =
      ::read(descriptor, &count, sizeof count);
}

}  // namespace sluice
