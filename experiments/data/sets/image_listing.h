#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// Numbers of what lies in a folder of images and isn't read, by kind.
class SkippedFiles {
 public:
  /// `kind`: a noun, with "|" where its plural has an s, or a file's ending.
  void add(const std::string& kind) { ++counts_[kind]; }
  /// Counts in words: "2 .webp, 1 hidden file"; empty: nothing was left out.
  std::string text() const;

 private:
  std::map<std::string, std::int64_t> counts_;
};

/// The names of the folders in `folder`, sorted by their bytes: links to
/// folders too, but none that are hidden (.ipynb_checkpoints) or made by a
/// system
/// (__MACOSX, @eaDir). Throws UserError when it can't be read.
std::vector<std::string> folders_in(const std::string& folder,
                                    SkippedFiles& left_out);

/// The PNG and JPEG files (.png, .jpg, .jpeg, in any case) in `folder` and the
/// folders below it, sorted by their paths' bytes, but none that are hidden or
/// a system's (._a.png, Thumbs.db). Links to folders are followed after all
/// that lies there itself, and each folder is read once, so that links may form
/// a ring. Throws UserError when it can't be read or has no image.
std::vector<std::string> image_files_in(const std::string& folder,
                                        SkippedFiles& left_out);

}  // namespace sluice
