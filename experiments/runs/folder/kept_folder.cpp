#include "experiments/runs/folder/kept_folder.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "experiments/runs/folder/run_entries.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The state of the copy is its name, which changes at once: a process may be
// killed between any two of these steps.
constexpr const char* kMaking = ".sluice-before-making";  // not whole: dropped
constexpr const char* kBefore = ".sluice-before";  // whole: to be put back
constexpr const char* kPutting = ".sluice-before-putting-back";
constexpr const char* kDropping = ".sluice-before-dropping";

/// The entries of a run in the folder, listed before any of them is removed or
/// added.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_entry_of_run(entry.path().filename().string()))
      entries.push_back(entry.path());
  return entries;
}

void remove_entries(const fs::path& folder) {
  for (const fs::path& entry : entries_of(folder)) fs::remove_all(entry);
}

void remove_new(const fs::path& folder) {
  remove_entries(folder);
  std::error_code somebody_elses;
  fs::remove(folder, somebody_elses);
}

void copy_entry(const fs::path& from, const fs::path& to) {
  constexpr auto kTree = fs::copy_options::recursive;
  std::error_code no_links;
  fs::copy(from, to, kTree | fs::copy_options::create_hard_links, no_links);
  if (!no_links) return;
  fs::remove_all(to);
  fs::copy(from, to, kTree);
}

void make_copy(const fs::path& folder) {
  fs::create_directory(folder / kMaking);
  for (const fs::path& entry : entries_of(folder))
    copy_entry(entry, folder / kMaking / entry.filename());
  fs::rename(folder / kMaking, folder / kBefore);
}

void drop_copy(const fs::path& folder) {
  if (fs::exists(folder / kBefore))
    fs::rename(folder / kBefore, folder / kDropping);
  fs::remove_all(folder / kMaking);
  fs::remove_all(folder / kDropping);
}

void put_copy_back(const fs::path& folder) {
  if (fs::exists(folder / kBefore)) {
    remove_entries(folder);
    fs::rename(folder / kBefore, folder / kPutting);
  }
  if (fs::exists(folder / kPutting))
    for (const fs::path& entry : entries_of(folder / kPutting))
      fs::rename(entry, folder / entry.filename());
  fs::remove_all(folder / kPutting);
  drop_copy(folder);
}

}  // namespace

KeptFolder::KeptFolder(std::string folder, bool is_new,
                       std::shared_ptr<FolderLock> lock)
    : folder_(std::move(folder)),
      is_new_(is_new),
      lock_(is_new ? nullptr : std::move(lock)) {
  if (is_new_) return;
  try {
    make_copy(folder_);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(fs::path(folder_) / kMaking, ignored);
    throw UserError(
        "{}: the run that is there can't be copied, which would be put back if "
        "a rank refused: {}",
        folder_, error.code().message());
  }
}

KeptFolder::~KeptFolder() {
  if (is_kept_) return;
  try {
    if (is_new_)
      remove_new(folder_);
    else
      put_copy_back(folder_);
  } catch (const fs::filesystem_error&) {
    // The copy is still there for the next process that takes the folder.
  }
}

void KeptFolder::keep_changes() {
  if (is_kept_) return;
  is_kept_ = true;
  if (is_new_) return;
  try {
    drop_copy(folder_);
  } catch (const fs::filesystem_error& error) {
    throw UserError("{}: can't be written: {}", folder_,
                    error.code().message());
  }
}

bool KeptFolder::is_left_in(const std::string& folder) {
  return fs::exists(fs::path(folder) / kBefore) ||
         fs::exists(fs::path(folder) / kPutting);
}

void KeptFolder::put_back(const std::string& folder) {
  try {
    put_copy_back(folder);
  } catch (const fs::filesystem_error& error) {
    throw UserError("{}: can't be written: {}", folder, error.code().message());
  }
}

}  // namespace sluice
