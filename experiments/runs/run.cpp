#include "experiments/runs/run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/rules/replica_rules.h"
#include "experiments/runs/attempt.h"
#include "experiments/runs/checkpoints/repartition.h"
#include "experiments/runs/checkpoints/resume_check.h"
#include "experiments/runs/checkpoints/resumed_rate.h"
#include "experiments/runs/checkpoints/resumed_replicas.h"
#include "experiments/runs/faults/injection.h"
#include "experiments/runs/faults/signal_sink.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/followed_folder.h"
#include "experiments/runs/folder/machine_peak.h"
#include "experiments/runs/folder/returned_replicas.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/ranks.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/processes/stop_request.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/devices.h"
#include "experiments/runs/seats/mps.h"
#include "experiments/runs/sinks/console.h"
#include "experiments/runs/sinks/run_sink.h"
#include "experiments/runs/sinks/trackers.h"
#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/base/files/user_text.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/coordinator.h"
#include "lib/replicas/groups/mpi.h"
#include "lib/replicas/groups/nccl.h"
#include "transport/links/tcp.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

records::Summary summary_of(const Experiment& experiment,
                            const RunResult& result) {
  records::Summary summary{.name = experiment.name,
                           .method = method_of(experiment),
                           .engine = name_of(experiment.engine),
                           .blocks = experiment.blocks(),
                           .seconds = result.seconds,
                           .samples_per_second = result.samples_per_second,
                           .tokens_per_second = result.tokens_per_second,
                           .share_of_peak = result.share_of_peak};
  if (result.evaluation) {
    if (!std::isnan(result.evaluation->accuracy))  // the targets are numbers
      summary.accuracy = result.evaluation->accuracy;
    summary.loss = result.evaluation->loss;
    summary.validation_accuracy = result.evaluation->validation_accuracy;
    summary.validation_loss = result.evaluation->validation_loss;
  }
  if (const auto clock = result.clock.find(0); clock != result.clock.end()) {
    summary.virtual_seconds = clock->second.seconds;
    summary.virtual_samples_per_second = clock->second.samples_per_second;
  }
  return summary;
}

/// Whether the temporary files of worker processes have somewhere to go. Throws
/// UserError. Like check_meeting(), called before a run's folder is made, or an
/// older one removed, so that what the user has to mend leaves nothing behind.
void check_temporary_files(const Experiment& experiment) {
  if (experiment.engine != Engine::processes) return;
  const TemporaryFolder tried;
}

/// Whether worker processes can meet: the secret of ranks on several hosts, and
/// where rank 0 listens. Throws UserError.
void check_meeting(const Experiment& experiment,
                   const std::optional<Rank>& rank) {
  if (experiment.engine != Engine::processes || !rank || rank->one_host) return;
  secret_of(*rank);
  check_tcp_host(host_of(*rank));
}

/// Whether replicas of other hosts can join, where an address for them is
/// given. Throws UserError.
void check_door(const Experiment& experiment, const RunOptions& options) {
  if (options.door.empty()) return;
  if (experiment.engine != Engine::processes || !can_be_joined(experiment))
    throw UserError(
        "--door is for runs that replicas can join: `sluice help config "
        "replicas.start_with` says which; leave it out");
  if (experiment.transport != kAutoTransport &&
      !transport_of(experiment.transport).encrypted)
    throw UserError(
        "--door: replicas of other hosts join by an encrypted transport, and "
        "transport is '{}': set transport = 'tls', or 'auto'",
        experiment.transport);
  check_tcp_host(options.door);
}

/// Whether the processes are ranks of MPI, where replicas sum over it. Throws
/// UserError.
void check_mpi(const Experiment& experiment, const std::optional<Rank>& rank) {
  if (!experiment.replicas.uses_mpi() || experiment.replicas.count == 1 ||
      experiment.engine != Engine::processes)
    return;
  if (!has_mpi())
    throw UserError(
        "replicas.group = 'mpi': this build has no MPI: install "
        "libopenmpi-dev, or `pip install mpich` into .venv, and build anew");
  if (rank && !rank->mpi.empty() && rank->mpi != mpi_name())
    throw UserError(
        "replicas.group = 'mpi': this build has {}, and the mpirun that has "
        "started it is of {}: take the other mpirun, or build with "
        "-DSLUICE_MPI_ROOT=FOLDER of that one",
        mpi_name(), rank->mpi);
  if (!rank || rank->mpi.empty())
    throw UserError(
        "replicas.group = 'mpi' is for processes that mpirun has started: "
        "mpirun -n {} sluice run ..., or leave group out",
        experiment.seats());
}

/// Whether there is an NCCL, where replicas sum over it. Throws UserError.
void check_nccl(const Experiment& experiment) {
  if (!experiment.replicas.uses_nccl() || experiment.replicas.count == 1 ||
      experiment.engine != Engine::processes)
    return;
  check_has_nccl();
}

void say_what_changes(const Experiment& experiment, const RestartPoint& from) {
  for (const std::string& text :
       {describe_cut(experiment, from.checkpoint),
        describe_replicas(experiment, from.checkpoint)})
    if (!text.empty()) put("{}\n", text);
}

/// The checkpoint that the run shall continue from; turn 0 for a new run.
RestartPoint starting_point(const Experiment& experiment,
                            const RunOptions& options) {
  if (!options.resume) {
    check_begin(experiment);
    if (!experiment.initial_weights.empty())
      check_weights(experiment, experiment.initial_weights);
    return {};
  }
  const RestartPoint last = last_checkpoint(options.folder);
  check_continuable(experiment, options.folder);
  const std::vector<std::string> changes =
      check_resume(experiment, options.folder, last);
  RestartPoint resumed = restart_point(experiment, options.folder);
  if (resumed.turn >= experiment.length.turns)
    throw UserError(
        "{}: all its {} turns are done; to train on, override epochs or turns",
        options.folder, resumed.turn);
  check_resumable(experiment,
                  {.checkpoints = checkpoints_of_run(options.folder),
                   .resume = resumed.checkpoint});
  if (!options.quiet) {
    for (const std::string& line : changes) put("{}\n", line);
    say_what_changes(experiment, resumed);
  }
  return resumed;
}

/// The lock of a run that is continued; a new run gets its lock with its
/// folder.
std::shared_ptr<FolderLock> lock_of(const RunOptions& options) {
  if (options.lock || !options.resume) return options.lock;
  return lock_run(options.folder, {.patience = options.patience});
}

/// Change of the rate by this resume; nothing where the run's own config can't
/// be read any more, as when its data have moved.
std::optional<RateChange> rate_change_in(const Experiment& experiment,
                                         const std::string& folder,
                                         std::int64_t turn) {
  try {
    const ConfigNode before = read_config_file(config_of_run(folder));
    if (before == experiment.resolved) return std::nullopt;
    return rate_change(before, experiment, turn);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// Says on stderr that the learning rate takes another course than it had;
/// empty: it doesn't.
std::string rate_text(const Experiment& experiment, const std::string& folder,
                      std::int64_t turn) {
  const auto change = rate_change_in(experiment, folder, turn);
  if (!change || !change->is_any()) return "";
  std::string text = text_of(*change);
  say("sluice: {}\n", text);
  return text;
}

RunFolder open_folder(const Experiment& experiment, const RunOptions& options,
                      std::shared_ptr<FolderLock> lock,
                      const RestartPoint& start) {
  if (options.resume) {
    // Read before reopen() replaces the config in the folder.
    const std::string rate = rate_text(experiment, options.folder, start.turn);
    return RunFolder::reopen(options.folder, std::move(lock), experiment,
                             options.command, start, rate,
                             options.rank.has_value());
  }
  return RunFolder::make(options.folder.empty()
                             ? make_run_folder(experiment.name)
                             : options.folder,
                         experiment, options.command,
                         {.overwrite = options.overwrite,
                          .is_new = options.folder.empty(),
                          .may_be_refused = options.rank.has_value(),
                          .lock = {.patience = options.patience}});
}

std::vector<Injection> faults_of(const Experiment& experiment,
                                 const RunOptions& options) {
  std::vector<Injection> faults =
      parse_injections(options.faults, experiment.seats());
  if (!faults.empty() && experiment.engine != Engine::processes)
    throw UserError(
        "--inject is for worker processes; engine is '{}': set engine = "
        "'processes'",
        name_of(experiment.engine));
  return faults;
}

/// Only block 1 needs the samples, maybe in another process; but a damaged file
/// should be found before anything is written.
void read_samples(const Experiment& experiment) {
  experiment.data->train.samples();
  experiment.data->test.samples();
  if (experiment.data->has_validation()) experiment.data->validation.samples();
}

std::vector<std::shared_ptr<Sink>> sinks_beside_files(
    const Experiment& experiment, const RunOptions& options,
    const std::string& folder, std::int64_t first_turn,
    std::shared_ptr<SignalSink> faults) {
  std::vector<std::shared_ptr<Sink>> sinks = {std::move(faults)};
  if (!experiment.loggers.empty())
    sinks.push_back(std::make_shared<Trackers>(experiment.loggers, folder));
  if (!options.quiet)
    sinks.push_back(std::make_shared<Console>(experiment, first_turn));
  return sinks;
}

/// Starts the daemon that the config asks for, where none runs. Ranks share
/// their host: what starts them starts it.
void start_wanted(const Experiment& experiment, const RunOptions& options,
                  std::optional<MpsDaemon>& daemon) {
  const bool is_wanted = experiment.mps && uses_gpus(experiment) &&
                         experiment.engine == Engine::processes &&
                         !options.rank;
  if (is_wanted && !mps_is_running()) daemon.emplace();
}

void say_what_never_happened(const SignalSink& faults) {
  for (const Injection& missed : faults.missed())
    say("sluice: the run ended before this could happen: {}\n", missed.text);
}

/// Adds rates that follow from samples per second.
void add_rates(const Experiment& experiment, bool has_ranks,
               RunResult& result) {
  if (experiment.model.sample.is_text)
    result.tokens_per_second =
        result.samples_per_second *
        static_cast<double>(experiment.model.sample.shape.at(0));
  // Ranks may be on other machines. Less than a second says little, and the
  // measurement takes a part of one.
  constexpr double kShortest = 1;
  if (has_ranks || uses_gpus(experiment) || result.seconds < kShortest) return;
  const double share = result.samples_per_second *
                       operations_per_sample(experiment.model) /
                       peak_of_cores();
  // A share above 1: other programs had the cores while the peak was measured.
  if (share <= 1) result.share_of_peak = share;
}

RunResult result_of(const Experiment& experiment, const RunFolder& folder,
                    std::int64_t first_turn, double seconds_lost,
                    bool has_ranks, Attempt& attempt) {
  const RunSink& sink = attempt.sink();
  Coordinator& coordinator = attempt.coordinator();
  RunResult result{.folder = folder.path(), .first_turn = first_turn};
  result.seconds = seconds_lost + coordinator.seconds();
  result.complete = !coordinator.interrupted();
  result.evaluation = sink.last_evaluation();
  result.best = attempt.best_evaluation();
  result.samples_per_second =
      samples_per_turn(experiment) *
      static_cast<double>(coordinator.turns_granted() - first_turn) /
      std::max(result.seconds, 1e-9);
  add_rates(experiment, has_ranks, result);
  result.blocks = sink.blocks();
  result.forecasts = sink.forecasts();
  result.clock = sink.clock();
  result.dropped = sink.dropped();
  attempt.sink().write(summary_of(experiment, result));
  if (result.complete) folder.mark_done();
  return result;
}

}  // namespace

RunResult run(const Experiment& experiment, const RunOptions& options,
              StopSignals& signals) {
  const auto faults =
      std::make_shared<SignalSink>(faults_of(experiment, options));
  read_samples(experiment);
  if (!options.rank) check_devices(experiment);  // a rank may be elsewhere
  std::optional<MpsDaemon> mps;
  {
    // A signal must not leave a temporary folder half made, without its lock.
    const auto held = signals.hold();
    check_temporary_files(experiment);
    start_wanted(experiment, options, mps);
  }
  check_meeting(experiment, options.rank);
  check_door(experiment, options);
  check_mpi(experiment, options.rank);
  check_nccl(experiment);
  const auto lock = lock_of(options);
  RestartPoint start = starting_point(experiment, options);
  // Once there is a folder, a signal must leave it such that it can be
  // continued.
  StopRequest stop;
  const StopScope scope(signals, [&] { stop.make(); });
  std::optional<FollowedFolder> followed;  // outlives the lock of a new folder
  RunFolder folder = open_folder(experiment, options, lock, start);
  followed.emplace(folder.path(), [&] { stop.make(); });
  const std::int64_t first_turn = start.turn;
  const auto sinks = sinks_beside_files(experiment, options, folder.path(),
                                        first_turn, faults);
  Restarts restarts(experiment, folder.path());
  for (bool again = false;; again = true) {
    if (again) {
      check_same_data(folder.path(), experiment);  // workers read them anew
      folder.rewind(start);
    }
    Attempt attempt(experiment, folder, start, sinks);
    if (again) attempt.sink().write(restarts.record());
    const int started = experiment.started_seats() / experiment.blocks();
    for (const auto& returned :
         returned_replicas(folder.history(), start, started))
      attempt.sink().write(returned);
    const StopRequest::Recipient hearer(stop, attempt.coordinator());
    try {
      attempt.run({.program = {.file = options.program},
                   .faults = to_text(faults->left()),
                   .door = options.door,
                   .rank = options.rank,
                   .on_begin = options.on_begin});
      say_what_never_happened(*faults);
      RunResult result =
          result_of(experiment, folder, first_turn, restarts.seconds_lost(),
                    options.rank.has_value(), attempt);
      result.folder = followed->path();
      return result;
    } catch (const WorkerLostError& lost) {
      restarts.moved_to(followed->path());
      const std::int64_t turns = attempt.sink().turns();
      if (stop.is_made()) restarts.give_up(lost, turns);
      start = restarts.after(lost, start, turns, attempt.seconds());
    }
  }
}

}  // namespace sluice
