#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// A file as its authors publish it.
struct PublishedFile {
  std::string_view name = {};  ///< below the set's URL
  std::int64_t bytes = 0;
  std::string_view sha256 = {};
};

/// The files of a data set.
struct PublishedSet {
  std::string_view name = {};    ///< as in a config
  std::string_view url = {};     ///< the folder that they are in
  std::string_view folder = {};  ///< below the root, where they are read from
  std::vector<PublishedFile> files = {};
  /// When the file is a .tar.gz: what is read of it, below `folder`.
  std::vector<std::string_view> unpacked = {};
};

/// What `sluice data fetch` knows: a row per data set.
std::span<const PublishedSet> published_sets();

}  // namespace sluice
