#include "lib/base/files/output_file.h"

#include <ext/stdio_filebuf.h>
#include <fcntl.h>

namespace sluice {
namespace {

using FileBuffer = __gnu_cxx::stdio_filebuf<char>;

/// The mode of a new file, as users expect it: readable by others as far as the
/// umask allows.
constexpr int kMode = 0666;

}  // namespace

OutputFile::OutputFile() : std::ostream(nullptr) {}

OutputFile::OutputFile(const std::string& path, std::ios::openmode mode)
    : OutputFile() {
  open(path, mode);
}

OutputFile::~OutputFile() = default;

void OutputFile::open(const std::string& path, std::ios::openmode mode) {
  const bool appends = (mode & std::ios::app) != 0;
  const int descriptor = ::open(
      path.c_str(),
      O_WRONLY | O_CREAT | O_CLOEXEC | (appends ? O_APPEND : O_TRUNC), kMode);
  if (descriptor < 0) return setstate(std::ios::failbit);
  buffer_ = std::make_unique<FileBuffer>(
      descriptor, std::ios::out | std::ios::binary | mode);
  rdbuf(buffer_.get());  // and clears the state
}

void OutputFile::close() {
  auto* const buffer = static_cast<FileBuffer*>(buffer_.get());
  if (buffer == nullptr || buffer->close() == nullptr)
    setstate(std::ios::failbit);
}

}  // namespace sluice
