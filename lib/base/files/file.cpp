#include "lib/base/files/file.h"

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/output_file.h"

namespace sluice {
namespace {

/// Syncs a file or folder to the disk; false with errno when that fails.
bool sync(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool synced = ::fsync(descriptor) == 0;
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  return synced;
}

[[noreturn]] void fail(const std::string& path, const std::string& beside) {
  const std::string reason = errno_text();
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  throw UserError("{}: can't be written: {}", path, reason);
}

}  // namespace

void sync_to_disk(const std::string& path) {
  if (!sync(path))
    throw UserError("{}: can't be synced: {}", path, std::strerror(errno));
}

void write_file_atomically(const std::string& path,
                           const std::function<void(std::ostream&)>& write) {
  const std::string beside = path + ".partial";
  errno = 0;
  OutputFile file(beside);
  if (!file) fail(path, beside);
  write(file);
  file.flush();
  if (!file) fail(path, beside);
  file.close();
  if (!file || !sync(beside)) fail(path, beside);
  if (::rename(beside.c_str(), path.c_str()) != 0) fail(path, beside);
  const auto folder = std::filesystem::path(path).parent_path();
  if (!sync(folder.empty() ? "." : folder.string())) fail(path, beside);
}

}  // namespace sluice
