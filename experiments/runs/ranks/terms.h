#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

/// Terms that a rank was started with, as far as ranks compare them when they
/// meet.
struct Terms {
  /// Commit of the program: this_build().
  std::string commit = {};
  /// The keys that make the numbers (numbers_of()), and those of the links.
  ConfigNode config = {};
  /// Fingerprints of the data files that this rank has: fingerprint_of().
  ConfigNode data = {};
  std::int64_t first_turn = 0;  ///< of a run that is continued; else 0
  /// What may move the last bits: LibTorch's build, vector instructions.
  ConfigNode build = {};
};

/// The terms as JSON, for the wire.
std::string to_text(const Terms& terms);
/// Throws LinkError for anything that to_text() doesn't make.
Terms terms_from(std::string_view text);

/// Reason why rank `rank`, which has the terms `its`, can't train with rank 0:
/// the first thing that differs, with both values. Empty: it can. With
/// `equal_builds`, the build counts too.
std::string why_refused(const Terms& rank_0, const Terms& its, int rank,
                        bool equal_builds);

/// Consequence of different builds, for messages.
inline constexpr const char* kBuildsMatter =
    "the last bits of the numbers may depend on it; equal_builds = true "
    "refuses it";

/// A line for both ranks on the first thing in which their builds differ;
/// empty: nothing.
std::string other_build(const Terms& rank_0, const Terms& its, int rank);

}  // namespace sluice
