#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/data/files/raw_file.h"

namespace sluice {

/// A regular file within a tar file.
struct TarMember {
  std::string name = {};    ///< with its folders, as written
  std::uint64_t begin = 0;  ///< of its bytes, in the tar file
  std::uint64_t bytes = 0;
};

/// The regular files of a tar file (POSIX.1-2001 pax, ustar, GNU's long names
/// and large sizes), in its order. Reads headers alone, and the zeros behind
/// the end. Throws UserError, naming the place, for what is no such file, is
/// compressed, damaged or cut off, goes on behind its end, or has links.
std::vector<TarMember> members_of(const RawFile& tar);

}  // namespace sluice
