#include "lib/base/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/errno_text.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "sluice-";

/// Ours, and its process has ended for sure: it ran on this machine, and its
/// lock is free.
bool is_left(const std::string& folder) {
  struct stat status = {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid())
    return false;
  const LockSeen seen = look_at_lock(folder);
  return seen.holder && !seen.is_held && is_of_this_boot(*seen.holder);
}

/// What can't be removed now may be at the next start.
void remove_left_folders(const fs::path& in) {
  std::error_code ignored;
  for (fs::directory_iterator entry(in, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    if (is_left(entry->path().string())) fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

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
  path_ = fmt::format("{}/{}XXXXXX", root, kPrefix);
  if (::mkdtemp(path_.data()) == nullptr)
    throw UserError("{}: can't be made: {}; set TMPDIR to a folder of yours",
                    path_, errno_text());
  lock_.emplace(path_, LockOptions{.is_shared = false});
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace sluice
