#include "experiments/runs/attempt.h"

#include <cstdint>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/pinned_files.h"
#include "experiments/runs/processes/engines.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/sinks/bad_sample.h"
#include "experiments/runs/sinks/tensorboard.h"
#include "experiments/runs/sinks/virtual_clock.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

/// What makes bits per byte of the loss; 0: it is none of a text's tokens.
double bytes_per_token_of(const Experiment& experiment) {
  const bool is_entropy =
      text_of_key(experiment.resolved, "loss", "name") == "cross_entropy";
  return experiment.data && is_entropy ? experiment.data->bytes_per_token : 0;
}

}  // namespace

Attempt::Attempt(const Experiment& experiment, RunFolder& folder,
                 const RestartPoint& start,
                 std::vector<std::shared_ptr<Sink>> others)
    : experiment_(experiment),
      folder_(folder),
      start_(start),
      keeper_(folder.checkpoints(), experiment.checkpoint.keep),
      guard_(std::make_shared<DivergenceGuard>()),
      sink_(std::make_shared<RunSink>(with_files(std::move(others)), keeper_,
                                      bytes_per_token_of(experiment))),
      timeline_(
          std::make_shared<TimelineRecord>(experiment.seat_names(), sink_)),
      status_(
          std::make_shared<StatusFile>(experiment, folder.path(), timeline_)),
      schedule_(std::make_shared<ScheduleRecord>(
          experiment.seats(), status_,
          static_cast<int>(experiment.replicas.count),
          experiment.started_seats())),
      coordinator_(length(), experiment.seats(), schedule_,
                   [this](std::int64_t turn) { saved(turn); }) {
  if (is_free() && !start.checkpoint.empty()) schedule_->recall(folder.path());
  sink_->recall(folder.history());
  for (const Record& record : folder.history()) {
    coordinator_.recall(record);
    guard_->recall(record);
  }
}

Attempt::~Attempt() {
  remove_partial_checkpoints(folder_.checkpoints());
}

bool Attempt::is_free() const {
  return runs_free(experiment_.plans.front());
}

/// A checkpoint is whole only when the record of the way to it is on the disk.
void Attempt::saved(std::int64_t turn) {
  if (is_free()) schedule_->save_until(turn, folder_.path());
  const KeptCheckpoint kept = keeper_.saved(turn);
  if (kept.not_finite.empty()) return;
  if (experiment_.stop_on_nan)
    guard_->checkpoint_not_finite(turn, kept.not_finite);
  fmt::print(stderr,
             "sluice: {} isn't finite after turn {}: the checkpoint is set "
             "aside as {}\n",
             kept.not_finite, turn, kept.folder);
}

RunLength Attempt::length() const {
  RunLength length = experiment_.length;
  length.first_turn = start_.turn;
  length.first_phase = start_.phase;
  length.first_batch = start_.first_batch;
  return length;
}

std::vector<std::shared_ptr<Sink>> Attempt::with_files(
    std::vector<std::shared_ptr<Sink>> others) {
  const auto board =
      std::make_shared<TensorBoardFile>(folder_.path(), folder_.started());
  board->tell_config(experiment_.resolved);
  board->measure_speed(samples_per_turn(experiment_));
  for (const Record& record : folder_.history()) board->write(record);
  metrics_ = std::make_shared<GuardedSink>(
      folder_.metrics(), [this](const std::string& text) { lost_file(text); });
  others.insert(others.begin(), {metrics_, board});
  // Last: a loss that ends the run has been written then.
  if (experiment_.stop_on_nan) others.push_back(guard_);
  return others;
}

void Attempt::lost_file(const std::string& reason) {
  lost_ = reason;
  coordinator_.request_stop();
}

void Attempt::end_without_file() {
  try {
    status_->finish("stopped");
    folder_.keep_rest(metrics_->rest());
  } catch (const UserError& error) {
    // A full disk, which may take these no more than the records.
    lost_ += fmt::format("; {}", error.what());
  }
  const auto saved = find_checkpoints(folder_.checkpoints());
  throw UserError(
      "{}; the run was stopped, {}", lost_,
      saved.empty()
          ? "without a checkpoint"
          : fmt::format("with a checkpoint of turn {}. To "
                        "continue: {}",
                        saved.rbegin()->first,
                        way_to_continue(experiment_, folder_.path())));
}

/// Called while what ended the run is being handled. Throws DivergenceError
/// when it did that: whatever else the workers said, they were made to end.
void Attempt::tell_failure() {
  const auto diverged =
      guard_->found(folder_.checkpoints(), [this](const SuspectTurns& turns) {
        return find_bad_sample(experiment_, turns);
      });
  try {
    if (diverged) sink_->write(*diverged);
    timeline_->save(folder_.path());
    status_->finish(diverged ? "diverged" : "failed");
  } catch (const UserError&) {
    // Dropped: the failure before it is the one to report.
  }
  if (diverged) throw DivergenceError(diverged->reason);
}

void Attempt::run(ProcessPlace place) {
  place.folder = folder_.path();
  place.on_begin = [this, on_begin = std::move(place.on_begin)] {
    folder_.begin();
    if (on_begin) on_begin();
  };
  try {
    run_engine(experiment_,
               {.files = {.checkpoints = folder_.checkpoints(),
                          .resume = start_.checkpoint},
                .processes = std::move(place),
                .is_forecast = !sink_->forecasts().empty(),
                .clock = saved_clock_in(folder_.history(), start_.turn)},
               coordinator_);
  } catch (...) {
    tell_failure();
    throw;
  }
  if (!lost_.empty()) end_without_file();
  timeline_->save(folder_.path());
  if (is_free()) schedule_->save(folder_.path());
  status_->finish(coordinator_.interrupted() ? "stopped" : "done");
}

}  // namespace sluice
