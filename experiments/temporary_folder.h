#pragma once

#include <string>

namespace sluice {

/// The system's temporary folder (TMPDIR). Throws UserError when it is none.
std::string temporary_root();

/// An empty folder of its own in the system's temporary folder, removed with
/// all that is in it.
class TemporaryFolder {
 public:
  /// Throws UserError when it can't be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sluice
