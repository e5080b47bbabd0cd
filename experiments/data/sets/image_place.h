#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "experiments/data/files/raw_file.h"

namespace sluice {

/// Where the bytes of an encoded image lie: a file of its own, or a part of a
/// tar file.
struct ImagePlace {
  std::string path = {};  ///< of the file; in a tar file the member's name
  std::shared_ptr<const RawFile> tar = nullptr;
  std::uint64_t begin = 0;  ///< in the tar file
  std::uint64_t bytes = 0;  ///< there

  /// Name of the image in messages.
  std::string name() const { return tar ? tar->path() + ":" + path : path; }
  /// The file to which the image belongs.
  const std::string& file() const { return tar ? tar->path() : path; }
};

}  // namespace sluice
