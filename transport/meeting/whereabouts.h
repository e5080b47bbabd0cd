#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Where a worker can be called: what it tells the launcher, and the launcher
/// all others, among the addresses of a hello.
struct Whereabouts {
  std::string address = {};  ///< "": it listens nowhere
  std::string near = {};     ///< the same, for processes of its host
  std::string mark = {};     ///< of its host (host_mark.h)
};

/// The whereabouts as one text; as three, where `has_marks`.
std::vector<std::string> to_texts(const Whereabouts& its, bool has_marks);

/// Whereabouts of `count` workers, block 1 first. Throws LinkError, with the
/// name of the block that said them, when that are more texts or fewer.
std::vector<Whereabouts> whereabouts_from(const std::vector<std::string>& texts,
                                          std::size_t count, bool has_marks,
                                          std::uint32_t said_by);

}  // namespace sluice
