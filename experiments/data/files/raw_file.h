#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// A regular file of fixed records, of any size, that is read in parts and
/// never as a whole: what is in memory is up to the system's cache. Any
/// number of threads may read. It is not mapped, so that a file which shrinks
/// under a run is an error, not the end of the process.
class RawFile {
 public:
  /// Opens the file. Throws UserError where the path is no regular file.
  explicit RawFile(const std::string& path);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes of the file when it was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `bytes` with those from `begin` on. Throws UserError when the file
  /// ends before, or can't be read.
  void read(std::uint64_t begin, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace sluice
