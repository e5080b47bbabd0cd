#pragma once

#include <functional>
#include <string>

#include "experiments/data/fetch/download.h"
#include "experiments/data/sets/published.h"

namespace sluice {

struct FetchOptions {
  std::string root = {};  ///< made when it isn't there
  std::string url = {};   ///< where the files are; empty: where published
  /// A line for people: what is there now.
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  std::function<void(const std::string& file, std::int64_t, std::int64_t)>
      progress = [](const std::string&, std::int64_t, std::int64_t) {};
};

/// Brings the files of a data set to root/folder: downloads what isn't there to
/// NAME.partial, which a later call goes on with; compares the SHA-256; unpacks
/// archives; and only then gives the files their names. A file that is there is
/// not touched. Throws UserError in one line; a download with a wrong sum is
/// removed.
void fetch(const PublishedSet& set, const FetchOptions& options);

/// Whether all files of the data set are in the folder `root`.
bool is_fetched(const PublishedSet& set, const std::string& root);

}  // namespace sluice
