#include "experiments/data/files/raw_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Error text of this thread's last system call.
std::string system_reason() {
  return std::generic_category().message(errno);
}

}  // namespace

RawFile::RawFile(const std::string& path) : path_(path) {
  // Opened without blocking: a fifo without a writer would never open.
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0 && errno == EMFILE)
    throw UserError(
        "{}: can't be opened: so many files are open already; allow more with "
        "`ulimit -n 65536`",
        path);
  if (file_ < 0)
    throw UserError(
        "{}: can't be opened: {}; correct the path, or who may read "
        "the file",
        path, system_reason());
  struct stat status = {};
  if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file_);
    throw UserError("{}: is not a regular file", path);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

RawFile::~RawFile() {
  ::close(file_);
}

void RawFile::read(std::uint64_t begin, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw UserError("{}: can't be read: {}", path_, system_reason());
    if (got == 0)
      throw UserError("{}: ends at byte {}; it had {} when it was opened",
                      path_, begin, size_);
    begin += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace sluice
