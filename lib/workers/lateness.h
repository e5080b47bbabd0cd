#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/checkpoints/saved_state.h"
#include "lib/metrics/records.h"
#include "lib/schedules/plan/action.h"
#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/seat_log.h"
#include "lib/workers/seat_plan.h"

namespace sluice {

/// How late a seat's gradients are, and what a centre didn't wait for. Throws
/// UserError where a gradient is older than max_staleness. Used by the seat's
/// thread.
class Lateness {
 public:
  /// Plan and log outlive it.
  Lateness(const SeatPlan& place, std::int64_t max_staleness, SeatLog& log)
      : place_(place), max_staleness_(max_staleness), log_(log) {}

  /// Checks the batch of a backward, by the batches between.
  void check(const Action& backward) const;
  /// Reports how late a gradient is, or those of so many batches, in updates
  /// of the replica, and with the steps of others in between.
  void report(const Action& action, std::int64_t in_updates,
              std::int64_t in_steps, std::int64_t batches = 1);
  /// Keeps the lateness of a batch of the window, in updates, until it is known
  /// what others did before its gradient.
  void keep(std::int64_t in_updates) { kept_.push_back(in_updates); }
  void forget_kept() { kept_.clear(); }
  /// Counts what came of a push or a pull, and reports what was kept.
  void visited(const Action& settle, const CentreVisit& visit);
  void left_out(std::int64_t turns) { left_out_ += turns; }
  /// Seat::merged_turn().
  std::int64_t merged_turn() const { return merged_turn_; }

  /// Adds the counts to the record of a block whose centre has a quorum.
  void add_to(records::Block& record) const;
  /// Saves what is kept as "<name>.known_late.*".
  void save(const std::string& name, NamedTensors& all) const;
  void restore(const std::string& name, const SavedState& saved);

 private:
  const SeatPlan& place_;
  std::int64_t max_staleness_;
  SeatLog& log_;
  std::vector<std::int64_t> kept_;
  std::int64_t merged_turn_ = -1;
  std::int64_t late_ = 0;      // gradients that were dropped
  std::int64_t left_out_ = 0;  // turns
  std::int64_t absent_ = 0;    // from what others made
};

}  // namespace sluice
