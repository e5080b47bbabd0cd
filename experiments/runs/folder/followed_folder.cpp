#include "experiments/runs/folder/followed_folder.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks(100);
constexpr std::string_view kDeleted = " (deleted)";

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Path of the open folder; empty: unknown, or the folder is removed.
std::string place_of(int descriptor) {
  std::error_code error;
  const std::string place =
      fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error)
          .string();
  return error || place.ends_with(kDeleted) ? "" : place;
}

}  // namespace

FollowedFolder::FollowedFolder(const std::string& path,
                               std::function<void()> removed)
    : given_(without_slash(path)),
      removed_(std::move(removed)),
      descriptor_(::open(given_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
      now_(given_),
      thread_([this](const std::stop_token& over) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any ended;
        while (!over.stop_requested()) {
          look();
          ended.wait_for(lock, over, kBetweenLooks, [] { return false; });
        }
      }) {}

FollowedFolder::~FollowedFolder() {
  thread_.request_stop();
  thread_.join();
  remove_link();
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FollowedFolder::is_in_place() const {
  struct stat ours = {};
  struct stat there = {};
  return ::fstat(descriptor_, &ours) == 0 &&
         ::stat(given_.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

void FollowedFolder::look() {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0 || is_removed_) return;
  if (is_in_place()) return note_return();
  const std::string place = place_of(descriptor_);
  if (!place.empty()) return lead_to(place);
  is_removed_ = true;
  say("sluice: {}: was removed while the run works there\n", now_);
  removed_();
}

/// Notes that the folder has been moved back: then no link stands in its place.
void FollowedFolder::note_return() {
  std::error_code error;
  if (!is_linked_ || fs::is_symlink(fs::symlink_status(given_, error))) return;
  is_linked_ = false;
  now_ = given_;
}

/// Whether the folder was moved back since it was looked for.
bool FollowedFolder::has_come_back() {
  if (!is_in_place()) return false;
  now_ = given_;
  return true;
}

void FollowedFolder::lead_to(const std::string& place) {
  remove_link();
  std::error_code error;
  if (fs::exists(fs::symlink_status(given_, error))) {
    if (has_come_back()) return;
    end_without_it(place);
  }
  for (fs::path above = fs::path(given_).parent_path();
       !above.empty() && !fs::exists(above, error); above = above.parent_path())
    made_.push_back(above.string());
  std::for_each(made_.rbegin(), made_.rend(), [](const std::string& folder) {
    std::error_code ignored;  // the link says what is wrong
    fs::create_directory(folder, ignored);
  });
  if (::symlink(place.c_str(), given_.c_str()) != 0) {
    if (has_come_back()) return;
    end_without_it(place);
  }
  is_linked_ = true;
  now_ = place;
  say("sluice: {} was moved to {}: the run goes on there, through a link that "
      "it removes at its end\n",
      given_, place);
}

void FollowedFolder::remove_link() {
  if (!std::exchange(is_linked_, false)) return;
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(given_, error)))
    fs::remove(given_, error);
  for (const std::string& folder : made_) ::rmdir(folder.c_str());
  made_.clear();
}

void FollowedFolder::end_without_it(const std::string& place) const {
  say("sluice: {0} was moved to {1} while the run works there, and nothing may "
      "be written at {0} in its place; the run ends. To continue from its last "
      "checkpoint: sluice run --resume {1}\n",
      given_, place);
  std::_Exit(1);
}

std::string FollowedFolder::path() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

}  // namespace sluice
