#include "experiments/runs/processes/restarts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "experiments/runs/checkpoints/grant_start.h"
#include "experiments/runs/checkpoints/resumed_replicas.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/folder/returned_replicas.h"
#include "experiments/runs/folder/run_reader.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice {

RestartPoint restart_point(const Experiment& experiment,
                           const std::string& folder) {
  const auto found = find_checkpoints(checkpoints_of_run(folder));
  if (found.empty()) return {};
  const auto& [turn, checkpoint] = *found.rbegin();
  check_replicas(experiment, checkpoint);
  const GrantStart from = continued_from(experiment, checkpoint);
  return {turn, checkpoint, from.phase, from.first_batch,
          returning_replicas(experiment, checkpoint)};
}

std::set<int> lost_replicas_of(const std::string& folder) {
  RunReader reader(folder);
  std::set<int> lost;
  for (const auto& each : reader.next<records::LostReplica>())
    lost.insert(each.replica);
  return lost;
}

std::string way_to_continue(const Experiment& experiment,
                            const std::string& folder) {
  if (can_be_continued(experiment.plans.front()))
    return "sluice run --resume " + folder;
  const auto found = find_checkpoints(checkpoints_of_run(folder));
  const std::string again = "sluice run " + config_of_run(folder);
  return found.empty() ? again
                       : fmt::format(
                             "{} initial_weights={} (a run with buffers, or a "
                             "slow_consumer that drops activations, can only "
                             "lend its weights to another one)",
                             again, found.rbegin()->second);
}

void check_continuable(const Experiment& experiment,
                       const std::string& folder) {
  if (!can_be_continued(experiment.plans.front()))
    throw UserError(
        "{}: what lies in buffers, or waits to be sent or dropped, is in no "
        "checkpoint, so that this run can't be continued. Its checkpoint can "
        "be another run's initial_weights: {}",
        folder, way_to_continue(experiment, folder));
  if (!runs_free(experiment.plans.front())) return;
  const RestartPoint from = last_checkpoint(folder);
  check_losses(experiment, folder, from.checkpoint);
  if (!is_recorded_until(from.turn, experiment.seats(), folder,
                         replicas_with_gaps(folder)))
    throw UserError(
        "{}: isn't the record of {} blocks up to turn {}, without which they "
        "can't go on with schedule = 'free': the run had another schedule or "
        "cut, or is of an older version of this program",
        schedule_of_run(folder), experiment.seats(), from.turn);
}

Restarts::Restarts(const Experiment& experiment, std::string folder)
    : experiment_(experiment), folder_(std::move(folder)) {}

void Restarts::give_up(const WorkerLostError& lost, std::int64_t turns) const {
  const auto saved = find_checkpoints(checkpoints_of_run(folder_));
  const std::string remedy =
      saved.empty()
          ? "there is no checkpoint to continue from; "
            "checkpoint.every_turns saves some"
          : fmt::format("to continue after turn {}: {}", saved.rbegin()->first,
                        way_to_continue(experiment_, folder_));
  const std::string again =
      in_a_row_ > 0
          ? fmt::format("; {} restart{} from the same turn came no further",
                        in_a_row_, in_a_row_ == 1 ? "" : "s")
          : "";
  throw WorkerLostError(
      lost.block(), fmt::format("{}, after {} turn{}{}; {}", lost.what(), turns,
                                turns == 1 ? "" : "s", again, remedy));
}

RestartPoint Restarts::after(const WorkerLostError& lost,
                             const RestartPoint& last_start, std::int64_t turns,
                             double seconds) {
  if (!experiment_.restart_on_failure) give_up(lost, turns);
  RestartPoint point = restart_point(experiment_, folder_);
  if (point.turn > last_start.turn) in_a_row_ = 0;
  if (in_a_row_ >= experiment_.restarts ||
      point.turn >= experiment_.length.turns)
    give_up(lost, turns);
  ++in_a_row_;
  ++number_;
  seconds_lost_ += seconds;
  const std::int64_t turns_lost = std::max<std::int64_t>(0, turns - point.turn);
  record_ = {.turn = point.turn,
             .restart = number_,
             .block = lost.block(),
             .lost_turns = turns_lost,
             .lost_seconds = seconds,
             .reason = lost.what()};
  return point;
}

}  // namespace sluice
