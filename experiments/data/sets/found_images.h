#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/data/samples/data_set.h"
#include "experiments/data/sets/image_files.h"
#include "experiments/data/sets/image_walk.h"

namespace sluice {

/// The image files of a split, and what a walk over them has seen. Any number
/// of threads may use it.
class ImageSplitFiles {
 public:
  /// `is_walked_ahead`: whether they are walked before the first of them is
  /// wanted.
  ImageSplitFiles(std::string name, std::vector<ImageFile> files,
                  bool is_walked_ahead);

  const std::string& name() const { return name_; }
  const std::vector<ImageFile>& files() const { return files_; }
  bool is_walked_ahead() const { return is_walked_ahead_; }
  /// Summary of the walks through the files, which begin at the first call.
  const WalkSummary& summary() const;
  /// Throws UserError, naming the first, where images can't be decoded.
  void check() const;

 private:
  std::string name_;
  std::vector<ImageFile> files_;
  bool is_walked_ahead_;
  mutable std::once_flag walked_;
  mutable WalkSummary summary_;
};

/// What the folders of a set of images hold: its splits, without damaged images
/// where these are to be left out, and what is said of them.
class FoundImages {
 public:
  /// Looks at each file's entry in its folder; throws UserError for one that
  /// isn't there, and where nothing is left of a split.
  FoundImages(const ImageFilesOptions& options, ImageFiles files);

  using SplitFiles = std::shared_ptr<const ImageSplitFiles>;
  const SplitFiles& train() const { return splits_.at(0); }
  const SplitFiles& test() const { return splits_.at(1); }
  /// Files of the validation split, which may have none.
  const SplitFiles& validation() const { return splits_.at(2); }
  /// The listing that a DataSet has.
  const std::string& listing() const { return listing_; }

  /// Text for DataSet::found. Walks the splits that are walked ahead.
  std::vector<std::string> clauses() const;
  /// Walks through all splits, for DataSet::walk.
  std::vector<FoundFile> walk() const;

 private:
  SplitFiles sound_part(const std::string& name, std::vector<ImageFile> files,
                        bool is_walked_ahead);
  void look_at_entries();
  std::string text_of(const ImageSplitFiles& split) const;

  ImageFilesOptions options_;
  std::vector<std::string> classes_;
  SkippedFiles left_out_;
  std::vector<SplitFiles> splits_;
  std::vector<FoundFile> damaged_;  // that were left out
  std::string listing_;
  std::int64_t repeated_ = 0;  // files that lie in two classes or splits
  std::string first_repeated_;
};

}  // namespace sluice
