#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice::planner {

/// A method at every boundary, to be compared with others.
struct PlannedMethod {
  std::string label = {};
  /// The table [boundary]; empty: the one of the config.
  ConfigNode boundary = {};
  /// The table [pipeline]; empty: the one of the config where the boundaries
  /// are, else blocks take turns.
  ConfigNode pipeline = {};
};

/// The config's own boundaries, then the methods that most models can have,
/// with heads and options that fit this one; one of the same policy as the
/// config's own everywhere is left out.
std::vector<PlannedMethod> common_methods(const ConfigNode& config,
                                          const Experiment& experiment);

/// "local_loss", or {policy = "local_loss", head = {name = "predsim"}}. Throws
/// UserError for an unknown name.
PlannedMethod planned_method(const std::string& text,
                             const Experiment& experiment);

/// The config with that method at every boundary of so many blocks. What
/// differs by block is left as it is written; a timetable, a probe and the
/// seconds of [virtual] are left out; one block does a turn at once. `ranges`:
/// the config's own cut, used where it has so many blocks; to another number
/// belong tables that don't differ by block, or UserError is thrown.
ConfigNode config_with_method(const ConfigNode& config,
                              const PlannedMethod& method, std::int64_t blocks,
                              const Partition& ranges);

}  // namespace sluice::planner
