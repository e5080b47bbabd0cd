#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// What became of a random plan.
struct PlanVerdict {
  /// The traits go together: make_run_plan() or make_free_plan() takes them.
  bool is_accepted = false;
  /// Before anything runs capacities_of() refuses it, with the cycle.
  bool waits_for_itself = false;
  std::string fault = {};  ///< what is broken, and of what plan; empty: nothing
};

/// Makes the traits of up to 5 boundaries, a grant, costs of actions and
/// messages, and what else a schedule depends on, out of any bytes, and looks
/// whether a schedule that is accepted keeps what its traits promise: it comes
/// to its end with channels that hold a bounded number of messages, and every
/// block forwards and applies each batch once, learns from it once, evaluates
/// and saves; in lockstep or free. Above a slow consumer that is so for the
/// batches that come.
PlanVerdict judge_plan(std::span<const std::uint8_t> bytes);

}  // namespace sluice
