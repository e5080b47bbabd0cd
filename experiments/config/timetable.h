#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "lib/engines/switch.h"

namespace sluice {

/// The policy of a boundary in a phase of the timetable.
struct BoundaryPolicy {
  std::string name = {};   ///< "local_loss"
  ConfigNode config = {};  ///< with every default written out
  MakeBoundary make = {};
};
/// Index k-1.
using Boundaries = std::vector<BoundaryPolicy>;

/// Condition for a phase to begin, as the config has it: one of the numbers is
/// above 0.
struct SwitchSettings {
  double epoch = 0;
  std::int64_t turn = 0;
  double accuracy = 0;
  double loss = 0;
};

struct Timetable {
  std::vector<Boundaries> phases = {};
  std::vector<std::int64_t> accumulate = {};  ///< turns per update, by phase
  std::vector<SwitchSettings> switches = {};  ///< [i] begins phase i + 1
  /// What of them is left out (per_block_tables.h, Fields).
  std::vector<std::string> ignored = {};
  std::vector<DroppedKey> dropped = {};
};

/// Parts that policies may be made of.
PlugIns plug_ins();

/// Reads one boundary: its policy, one of those, and that policy's options.
BoundaryPolicy read_policy(Fields& fields, std::span<const PolicyRow> policies);

/// Boundaries and windows of the first phase.
struct FirstPhase {
  Boundaries boundaries = {};
  std::int64_t accumulate = 1;
};

/// Reads the list `timetable` of the phases after the first one. A boundary
/// that a phase says nothing of keeps its policy; one of which it names some
/// keys keeps the others. `recut_in` is NumberedKeys's.
Timetable read_timetable(Fields& top, FirstPhase first,
                         std::span<const PolicyRow> policies, int recut_in);

/// `turns_of` gives the turns of so many epochs. Throws when they would never
/// come, or in another order.
std::vector<Switch> switches_of(
    const Timetable& timetable,
    const std::function<std::int64_t(double epochs)>& turns_of, bool evaluates,
    const Fields& top);

}  // namespace sluice
