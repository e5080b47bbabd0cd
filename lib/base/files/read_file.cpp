#include "lib/base/files/read_file.h"

#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"

namespace sluice {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// A regular file, open for reading.
class OpenFile {
 public:
  /// Opens without blocking: for a fifo it would wait for a writer.
  explicit OpenFile(const std::string& path)
      : path_(path),
        descriptor_(::open(path.c_str(),
                           O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (descriptor_ < 0) fail();
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0) {
      const int reason = errno;
      ::close(descriptor_);
      errno = reason;
      fail();
    }
    if (S_ISREG(status.st_mode)) return;
    ::close(descriptor_);
    throw UserError("can't read '{}': it is {}; give a regular file", path,
                    kind_of(status.st_mode));
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// The next bytes, up to `most` of them; none at the end.
  std::string next(std::size_t most) const {
    std::string bytes(most, '\0');
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, bytes.data(), bytes.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail();
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError("can't read '{}': {}", path_, errno_text());
  }

  const std::string& path_;
  int descriptor_;
};

}  // namespace

std::string read_file(const std::string& path, std::uint64_t most) {
  constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
  const OpenFile file(path);
  std::string text;
  for (;;) {
    const std::string piece = file.next(kChunkBytes);
    if (piece.empty()) return text;
    text += piece;
    if (text.size() > most)
      throw UserError(
          "can't read '{}': it has more than {} bytes, so it is not what is "
          "looked for here",
          path, most);
  }
}

void check_regular_file(const std::string& path) {
  const OpenFile file(path);
}

}  // namespace sluice
