#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

/// A run's folder that somebody may move while the run works there. All
/// processes of the run write by its path: where the folder has gone, a
/// symbolic link leads there, until this object ends.
///
/// Where another folder has taken its place the process ends at once: it must
/// not write there.
class FollowedFolder {
 public:
  /// `removed` is called once, from another thread, where the folder is gone.
  FollowedFolder(const std::string& path, std::function<void()> removed);
  ~FollowedFolder();
  FollowedFolder(const FollowedFolder&) = delete;
  FollowedFolder& operator=(const FollowedFolder&) = delete;

  /// Looks whether it has been moved, as a thread does ten times a second.
  void look();
  /// Present path of the folder: the given one, unless it has been moved.
  std::string path() const;

 private:
  bool is_in_place() const;
  bool has_come_back();
  void note_return();
  void lead_to(const std::string& place);
  void remove_link();
  void end_without_it(const std::string& place) const;

  const std::string given_;
  const std::function<void()> removed_;
  int descriptor_ = -1;
  mutable std::mutex mutex_;  // guards what follows
  std::string now_;
  bool is_linked_ = false;
  bool is_removed_ = false;
  std::vector<std::string> made_;  // folders that the link needed
  std::jthread thread_;            // last: it uses all of the above
};

}  // namespace sluice
