#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace sluice {

/// A file that has a path and no disk, for readers of files.
class FileInMemory {
 public:
  explicit FileInMemory(std::span<const std::uint8_t> bytes)
      : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, bytes.data(), bytes.size()) !=
                         static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~FileInMemory() { ::close(file_); }
  FileInMemory(const FileInMemory&) = delete;
  FileInMemory& operator=(const FileInMemory&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace sluice
