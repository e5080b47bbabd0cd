#include "experiments/runs/engines.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/runs/assembly.h"
#include "experiments/runs/calibration.h"
#include "experiments/runs/ranks.h"
#include "experiments/runs/ranks/note.h"
#include "experiments/runs/ranks/wait_notice.h"
#include "experiments/runs/roll_call.h"
#include "experiments/runs/stop_signals.h"
#include "experiments/runs/virtual_clock.h"
#include "experiments/runs/worker_process.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/engines/control.h"
#include "lib/engines/processes.h"
#include "lib/engines/threads.h"
#include "lib/engines/virtual.h"
#include "lib/engines/worker_loop.h"
#include "lib/schedules/free_running.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/rendezvous.h"
#include "transport/wire/secret.h"

namespace sluice {
namespace {

std::size_t at(int block) {
  return static_cast<std::size_t>(block) - 1;
}

class CoordinatorSink final : public Sink {
 public:
  explicit CoordinatorSink(Coordinator& coordinator)
      : coordinator_(coordinator) {}
  void write(const Record& record) override { coordinator_.write(record); }

 private:
  Coordinator& coordinator_;
};

std::vector<Rehearsal> rehearsed(const Experiment& experiment,
                                 const RunPlace& place,
                                 Coordinator& coordinator) {
  std::vector<Rehearsal> rehearsals = rehearse(experiment);
  for (std::size_t k = 0; k < rehearsals.size() && !place.is_forecast; ++k)
    coordinator.write(to_record(rehearsals[k].memory, static_cast<int>(k) + 1));
  return rehearsals;
}

void run_in_one_thread(const Experiment& experiment, const RunPlace& place,
                       Coordinator& coordinator) {
  const Costs costs =
      experiment.calibrate
          ? calibrated(experiment, rehearsed(experiment, place, coordinator))
          : experiment.costs;
  const auto sink = std::make_shared<CoordinatorSink>(coordinator);
  const auto probe = make_probe(experiment, sink);
  std::vector<Ends> ends = memory_ends(experiment);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int block = 1; block <= experiment.blocks(); ++block)
    workers.push_back(make_worker(experiment, block, std::move(ends[at(block)]),
                                  sink, place.files, probe));
  std::optional<VirtualClock> clock;
  if (takes_time(costs))
    clock.emplace(experiment, costs, place.folder, sink, place.clock);
  const bool is_recorded = runs_free(experiment.plans.front());
  const double seconds = run_virtual(
      workers, experiment.plans, experiment.capacities, costs, coordinator,
      [&](const TimedAction& timed) {
        if (clock) clock->watch(timed);
        if (is_recorded)
          sink->write(actions_record(timed.block, timed.action.phase,
                                     to_text(timed.action)));
      },
      clock ? clock->start() : SavedClock());
  if (clock) clock->report(seconds);
}

void run_in_threads(const Experiment& experiment, const RunPlace& place,
                    Coordinator& coordinator) {
  const auto probe =
      make_probe(experiment, std::make_shared<CoordinatorSink>(coordinator));
  std::vector<Ends> ends = memory_ends(experiment);
  run_threads(
      experiment.plans, experiment.threads,
      [&](int block, Sender& control) {
        return make_worker(experiment, block, std::move(ends[at(block)]),
                           control_sink(control), place.files, probe);
      },
      coordinator);
}

/// All control links. Says for whom it waits where those are ranks.
std::vector<Link> meet_ranks(Rendezvous& rendezvous, RollCall& ranks,
                             const std::string& folder, Deadline patience) {
  RefusalsTold refusals(rendezvous);
  std::vector<Link> links;
  {
    const WaitNotice notice([&] { return awaited_text(rendezvous); }, patience,
                            [&] { return refusals.next(); });
    links = rendezvous.accept_workers();
  }
  ranks.record_builds(folder);
  return links;
}

void run_in_processes(const Experiment& experiment, const RunPlace& place,
                      Coordinator& coordinator) {
  std::optional<RollCall> ranks;  // judges for as long as `io` runs
  IoThread io;
  // The check reaches the children, which the engine owns.
  std::function<void()> check;
  const Secret secret = place.rank ? secret_of(*place.rank) : make_secret();
  RendezvousOptions options = rendezvous_options(experiment, secret);
  const Deadline timeout = options.deadline;
  if (place.rank) {
    options.host = host_of(*place.rank);
    ranks.emplace(experiment, turn_of(place.files.resume).value_or(0));
    ranks->judge_in(options);
  } else {
    options.deadline = kSupervisedDeadline;
  }
  options.check = [&] {
    check();
    if (place.rank && coordinator.is_stopping())
      throw Interrupted("stopped while rank 0 waited for the other ranks");
  };
  Rendezvous rendezvous(io, options);
  std::optional<PostedNote> note;
  if (place.rank && place.rank->one_host)
    note.emplace(place.rank->job,
                 Note{.address = rendezvous.address(),
                      .secret = secret,
                      .folder = std::filesystem::absolute(place.folder),
                      .resume = place.files.resume,
                      .faults = place.faults});
  const ProcessHooks hooks{
      .command = [&](int block) -> std::vector<std::string> {
        if (place.rank && block > 1) return {};
        return worker_command(place.program, place.folder, block,
                              rendezvous.address(), place.files.resume,
                              place.faults);
      },
      .input = secret.text(),
      .meet =
          [&](const std::function<void()>& check_children) {
            check = check_children;
            if (ranks)
              return meet_ranks(rendezvous, *ranks, place.folder,
                                options.patience);
            return rendezvous.accept_workers();
          },
      .all_joined =
          [&] {
            rendezvous.close();
            note.reset();
            if (place.on_begin) place.on_begin();
          },
      .deadline = timeout};
  run_processes(
      experiment.blocks(), hooks, coordinator,
      make_probe(experiment, std::make_shared<CoordinatorSink>(coordinator)));
}

}  // namespace

void run_engine(const Experiment& experiment, const RunPlace& place,
                Coordinator& coordinator) {
  const bool is_calibrated =
      experiment.engine == "virtual" && experiment.calibrate;
  const bool forecasts =
      experiment.forecast && !place.is_forecast && !is_calibrated;
  const bool has_processes = experiment.engine == "processes";
  if (!has_processes || forecasts) prepare_process(experiment);
  if (forecasts) rehearsed(experiment, place, coordinator);
  if (has_processes) return run_in_processes(experiment, place, coordinator);
  if (experiment.engine == "threads")
    return run_in_threads(experiment, place, coordinator);
  return run_in_one_thread(experiment, place, coordinator);
}

}  // namespace sluice
