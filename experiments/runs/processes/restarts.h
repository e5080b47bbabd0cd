#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/folder/run_folder.h"
#include "lib/engines/child_processes.h"
#include "lib/metrics/records.h"

namespace sluice {

/// Restarts a run that has lost a worker, or ends it: its config's `on_failure`
/// and `restarts`.
class Restarts {
 public:
  Restarts(const Experiment& experiment, std::string folder);
  void moved_to(std::string folder) { folder_ = std::move(folder); }

  /// Checkpoint at which the run goes on after it had come to `turns`,
  /// `seconds` after its last start. Throws WorkerLostError, with what can be
  /// done, when it shall not go on, or didn't get any further for too often.
  RestartPoint after(const WorkerLostError& lost,
                     const RestartPoint& last_start, std::int64_t turns,
                     double seconds);
  /// Throws WorkerLostError, with what can be done: the user wants it to end.
  [[noreturn]] void give_up(const WorkerLostError& lost,
                            std::int64_t turns) const;
  /// Record of the restart.
  const records::Restart& record() const { return record_; }
  /// Seconds of all attempts that were given up, together.
  double seconds_lost() const { return seconds_lost_; }

 private:
  const Experiment& experiment_;
  std::string folder_;
  std::int64_t number_ = 0;
  std::int64_t in_a_row_ = 0;
  double seconds_lost_ = 0;
  records::Restart record_;
};

/// The last checkpoint of a run in that folder and with what it is continued;
/// its start when there is none.
RestartPoint restart_point(const Experiment& experiment,
                           const std::string& folder);

/// Replicas that the folder's run has lost at some time, and went on without.
std::set<int> lost_replicas_of(const std::string& folder);

/// Throws UserError where a run in that folder, which has a checkpoint, can't
/// go on from it: its blocks ran free, and their record is missing, or they had
/// more under way than a checkpoint holds.
void check_continuable(const Experiment& experiment, const std::string& folder);

/// The command that goes on from the last checkpoint of a run in that folder.
std::string way_to_continue(const Experiment& experiment,
                            const std::string& folder);

}  // namespace sluice
