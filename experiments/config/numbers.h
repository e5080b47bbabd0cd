#pragma once

#include <optional>
#include <string>

#include "lib/base/config_node.h"

namespace sluice {

/// The part of a resolved config (Experiment::resolved) that determines the
/// numbers that a run ends with: without its name, engine, paths, display, what
/// is saved, how memory and threads are used (threads move the last bits) and,
/// where the model has no dropout, how masks are drawn.
ConfigNode numbers_of(const ConfigNode& resolved);

/// Eight hexadecimal digits that tell what numbers_of() gives apart, a CRC-32C:
/// the same for a config as it is in memory and in a run's folder.
std::string fingerprint_of(const ConfigNode& numbers);

/// A key that two configs say different things of.
struct Difference {
  std::string path = {};       ///< "optimizer.1.lr"
  std::string is = {};         ///< the value as in TOML, or "absent"
  std::string should_be = {};  ///< the other config's, in the same form
};

/// The first key whose values differ; nothing when all are equal.
std::optional<Difference> find_difference(const ConfigNode& is,
                                          const ConfigNode& should_be);

/// The path of the first key in which two configs differ, with both values:
/// "optimizer.1.lr is 0.1, not 0.2"; empty when they are equal.
std::string first_difference(const ConfigNode& is, const ConfigNode& should_be);

}  // namespace sluice
