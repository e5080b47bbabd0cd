#include "lib/base/files/temporary_folder.h"

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// A prefix that no user gives a folder; mkdtemp() adds six characters.
constexpr std::string_view kFolderPrefix = "sluice-tmp-";
constexpr std::string_view kPattern = "XXXXXX";

/// Age until which a process may still be about to lock the folder that it has
/// made.
constexpr std::time_t kSecondsToLock = 60;

bool is_private(const fs::path& folder) {
  struct stat status = {};
  return ::lstat(folder.c_str(), &status) == 0 && (status.st_mode & 077U) == 0;
}

/// Removes folders that killed processes left; what can't be removed now may be
/// at the next start.
void remove_left_folders(const fs::path& in) {
  std::error_code ignored;
  for (fs::directory_iterator entry(in, ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kFolderPrefix) ||
        name.size() != kFolderPrefix.size() + kPattern.size())
      continue;
    if (is_private(entry->path()) && is_left(entry->path().string()))
      fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

bool is_left(const std::string& folder) {
  struct stat status = {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid())
    return false;
  const LockStatus seen = look_at_lock(folder);
  if (seen.is_held) return false;
  if (!seen.holder)
    return std::time(nullptr) - status.st_mtim.tv_sec > kSecondsToLock;
  return is_of_this_boot(*seen.holder);
}

std::string temporary_root() {
  std::error_code error;
  const fs::path path = fs::temp_directory_path(error);
  if (error)
    throw UserError(
        "the folder for temporary files can't be used: {}; set TMPDIR to a "
        "folder that exists",
        error.message());
  return path.string();
}

TemporaryFolder::TemporaryFolder() {
  const std::string root = temporary_root();
  remove_left_folders(root);
  path_ = fmt::format("{}/{}{}", root, kFolderPrefix, kPattern);
  if (::mkdtemp(path_.data()) == nullptr)
    throw UserError("{}: can't be made: {}; set TMPDIR to a folder of yours",
                    path_, errno_text());
  try {
    lock_.emplace(path_, LockOptions{.is_shared = false});
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw;
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace sluice
