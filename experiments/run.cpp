#include "experiments/run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "experiments/assembly.h"
#include "experiments/checkpoint_keeper.h"
#include "experiments/console.h"
#include "experiments/engines.h"
#include "experiments/run_folder.h"
#include "experiments/run_sink.h"
#include "experiments/tensorboard.h"
#include "lib/base/error.h"
#include "lib/coordinator.h"

namespace sluice {
namespace {

Record summary_of(const Experiment& experiment, const RunResult& result) {
  Record record;
  record.set("kind", "summary");
  record.set("name", experiment.name);
  record.set("method", method_of(experiment));
  record.set("engine", experiment.engine);
  record.set("blocks", std::int64_t{experiment.blocks()});
  record.set("accuracy", result.accuracy);
  record.set("loss", result.loss);
  record.set("seconds", result.seconds);
  record.set("samples_per_second", result.samples_per_second);
  const auto clock = result.clock.find(0);
  if (clock != result.clock.end()) {
    record.set("virtual_seconds", clock->second.number("seconds", 0));
    record.set("virtual_samples_per_second",
               clock->second.number("samples_per_second", 0));
  }
  return record;
}

/// The checkpoint that the run shall continue from; turn 0 for a new run.
Resumed starting_point(const Experiment& experiment,
                       const RunOptions& options) {
  if (!options.resume) {
    if (!experiment.initial_weights.empty())
      check_weights(experiment, experiment.initial_weights);
    return {};
  }
  Resumed resumed = last_checkpoint(options.folder);
  if (resumed.turn >= experiment.length.turns)
    throw UserError(
        "{}: all its {} turns are done; to train on, override epochs or turns",
        options.folder, resumed.turn);
  const Continued from = continued_from(experiment, resumed.checkpoint);
  resumed.phase = from.phase;
  resumed.first_batch = from.first_batch;
  check_resumable(experiment,
                  {.checkpoints = checkpoints_of_run(options.folder),
                   .resume = resumed.checkpoint});
  return resumed;
}

RunFolder open_folder(const Experiment& experiment, const RunOptions& options,
                      const Resumed& start) {
  if (options.resume)
    return RunFolder::reopen(options.folder, experiment, options.command,
                             start);
  return RunFolder::make(options.folder.empty()
                             ? free_run_folder(experiment.name)
                             : options.folder,
                         experiment, options.command, options.overwrite);
}

/// Only block 1 needs the samples, maybe in another process; but a damaged file
/// should be found before anything is written.
void read_samples(const Experiment& experiment) {
  experiment.data->train.samples();
  experiment.data->test.samples();
}

}  // namespace

RunResult run(const Experiment& experiment, const RunOptions& options,
              StopSignals& signals) {
  read_samples(experiment);
  const Resumed start = starting_point(experiment, options);
  const RunFolder folder = open_folder(experiment, options, start);
  CheckpointKeeper keeper(folder.checkpoints(), experiment.keep);
  const auto file = folder.metrics();
  const auto board =
      std::make_shared<TensorBoardFile>(folder.path(), folder.started());
  for (const Record& record : folder.history()) board->write(record);
  const auto sink = std::make_shared<RunSink>(
      std::vector<std::shared_ptr<Sink>>{
          file, board, std::make_shared<Console>(experiment, start.turn)},
      keeper);
  RunLength length = experiment.length;
  length.first_turn = start.turn;
  length.first_phase = start.phase;
  length.first_batch = start.first_batch;
  Coordinator coordinator(length, experiment.blocks(), sink,
                          [&](std::int64_t turn) { keeper.saved(turn); });
  sink->recall(folder.history());
  for (const Record& record : folder.history()) coordinator.recall(record);

  signals.on_stop([&] { coordinator.request_stop(); });
  run_engine(experiment,
             {.folder = folder.path(),
              .files = {.checkpoints = folder.checkpoints(),
                        .resume = start.checkpoint},
              .program = options.program},
             coordinator);
  signals.on_stop(nullptr);

  RunResult result{.folder = folder.path(), .first_turn = start.turn};
  result.seconds = coordinator.seconds();
  result.complete = !coordinator.interrupted();
  result.accuracy = sink->last_evaluation().number("accuracy", 0);
  result.loss = sink->last_evaluation().number("loss", 0);
  result.samples_per_second =
      samples_per_turn(experiment) *
      static_cast<double>(coordinator.turns_granted() - start.turn) /
      std::max(result.seconds, 1e-9);
  result.blocks = sink->blocks();
  result.clock = sink->clock();
  file->write(summary_of(experiment, result));
  if (result.complete) folder.mark_done();
  return result;
}

}  // namespace sluice
