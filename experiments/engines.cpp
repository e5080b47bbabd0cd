#include "experiments/engines.h"

#include <memory>
#include <utility>
#include <vector>

#include "experiments/assembly.h"
#include "experiments/calibration.h"
#include "experiments/virtual_clock.h"
#include "experiments/worker_process.h"
#include "lib/engines/processes.h"
#include "lib/engines/threads.h"
#include "lib/engines/virtual.h"
#include "lib/engines/worker_loop.h"
#include "transport/io_thread.h"
#include "transport/rendezvous.h"

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

void run_in_one_thread(const Experiment& experiment, const RunPlace& place,
                       Coordinator& coordinator) {
  const Costs costs =
      experiment.calibrate ? calibrated(experiment) : experiment.costs;
  const auto sink = std::make_shared<CoordinatorSink>(coordinator);
  const auto probe = make_probe(experiment, sink);
  std::vector<Ends> ends = memory_ends(experiment);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int block = 1; block <= experiment.blocks(); ++block)
    workers.push_back(make_worker(experiment, block, std::move(ends[at(block)]),
                                  sink, place.files, probe));
  if (!takes_time(costs)) {
    run_virtual(workers, experiment.plans, experiment.capacities, costs,
                coordinator);
    return;
  }
  VirtualClock clock(experiment, costs, place.folder);
  const double seconds = run_virtual(
      workers, experiment.plans, experiment.capacities, costs, coordinator,
      [&](const TimedAction& timed) { clock.watch(timed); });
  clock.report(seconds, *sink);
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

void run_in_processes(const Experiment& experiment, const RunPlace& place,
                      Coordinator& coordinator) {
  IoThread io;
  // The check reaches the children, which the engine owns.
  std::function<void()> check;
  RendezvousOptions options = rendezvous_options(experiment);
  options.check = [&] { check(); };
  Rendezvous rendezvous(io, options);
  const ProcessHooks hooks{
      .command =
          [&](int block) {
            return worker_command(place.program, place.folder, block,
                                  rendezvous.address(), place.files.resume);
          },
      .meet =
          [&](const std::function<void()>& check_children) {
            check = check_children;
            return rendezvous.accept_workers();
          }};
  run_processes(
      experiment.blocks(), hooks, coordinator,
      make_probe(experiment, std::make_shared<CoordinatorSink>(coordinator)));
}

}  // namespace

void run_engine(const Experiment& experiment, const RunPlace& place,
                Coordinator& coordinator) {
  if (experiment.engine == "processes")
    return run_in_processes(experiment, place, coordinator);
  prepare_process(experiment);
  if (experiment.engine == "threads")
    return run_in_threads(experiment, place, coordinator);
  return run_in_one_thread(experiment, place, coordinator);
}

}  // namespace sluice
