#include "experiments/runs/uses/drain.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "experiments/runs/checkpoints/checkpoint_keeper.h"
#include "experiments/runs/checkpoints/grant_start.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/engines.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/sinks/run_sink.h"
#include "experiments/runs/sinks/tensorboard.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/engines/coordinator.h"
#include "lib/metrics/records.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice {
namespace {

/// What is said of turns; what a run says at its end, it says at its end.
class TurnSink final : public Sink {
 public:
  explicit TurnSink(std::shared_ptr<Sink> next) : next_(std::move(next)) {}
  void write(const Record& record) override {
    if (record.read<records::Place>().turn) next_->write(record);
  }

 private:
  std::shared_ptr<Sink> next_;
};

/// Experiment with the same numbers, computed in this thread, without other
/// output.
Experiment in_this_thread(Experiment experiment) {
  experiment.engine = Engine::virtual_time;
  experiment.costs = {};
  experiment.virtual_time.calibrate = false;
  experiment.probe_every = 0;
  experiment.traced = {};
  experiment.tells_status = false;
  return experiment;
}

/// No turn is left to be granted, so the run ends where it starts.
RunLength drain_at(const Experiment& experiment, const RestartPoint& point) {
  RunLength length = experiment.length;
  length.first_turn = length.turns = point.turn;
  length.first_phase = point.phase;
  length.first_batch = point.first_batch;
  length.evaluation_batches = 0;
  length.early_stop = {};
  length.drain = true;
  return length;
}

void drain(const Experiment& experiment, const RunFolder& folder,
           const RestartPoint& point) {
  CheckpointKeeper keeper(folder.checkpoints(), experiment.checkpoint.keep);
  const auto board =
      std::make_shared<TensorBoardFile>(folder.path(), folder.started());
  board->tell_config(experiment.resolved);
  board->measure_speed(samples_per_turn(experiment));
  for (const Record& record : folder.history()) board->write(record);
  const auto sink = std::make_shared<RunSink>(
      std::vector<std::shared_ptr<Sink>>{
          std::make_shared<TurnSink>(folder.metrics()),
          std::make_shared<TurnSink>(board)},
      keeper);
  sink->recall(folder.history());
  Coordinator coordinator(drain_at(experiment, point), experiment.seats(), sink,
                          [&](std::int64_t turn) { keeper.saved(turn); });
  run_engine(experiment,
             {.files = {.checkpoints = folder.checkpoints(),
                        .resume = point.checkpoint},
              .processes = {.folder = folder.path()}},  // it starts none
             coordinator);
}

}  // namespace

DrainResult drain_last_checkpoint(const std::string& folder,
                                  std::shared_ptr<FolderLock> lock,
                                  const Experiment& experiment,
                                  const std::string& command) {
  if (runs_free(experiment.plans.front()))
    throw UserError(
        "{}: ran with schedule = 'free', and its record says what was applied "
        "before this checkpoint: continue the run, and what is in flight is "
        "applied at its end",
        folder);
  const RestartPoint point = restart_point(experiment, folder);
  DrainResult drained{.checkpoint = point.checkpoint,
                      .turn = point.turn,
                      .batches = in_flight_in(point.checkpoint).batches};
  if (drained.batches == 0) return drained;
  check_resumable(experiment, {.checkpoints = checkpoints_of_run(folder),
                               .resume = point.checkpoint});
  const bool was_done = std::filesystem::exists(folder + "/done");
  const RunFolder opened =
      RunFolder::reopen(folder, std::move(lock), experiment, command, point);
  try {
    drain(in_this_thread(experiment), opened, point);
  } catch (...) {
    remove_partial_checkpoints(opened.checkpoints());
    if (was_done) opened.mark_done();
    throw;
  }
  if (was_done) opened.mark_done();
  return drained;
}

}  // namespace sluice
