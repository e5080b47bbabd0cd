#include "experiments/runs/processes/engines.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/runs/measuring/calibration.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/sinks/virtual_clock.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice {
namespace {

std::vector<Rehearsal> rehearsed(const Experiment& experiment,
                                 const RunPlace& place,
                                 Coordinator& coordinator) {
  std::vector<Rehearsal> rehearsals = rehearse(experiment);
  for (std::size_t k = 0; k < rehearsals.size() && !place.is_forecast; ++k)
    coordinator.write(forecast_of(rehearsals[k], static_cast<int>(k) + 1));
  return rehearsals;
}

CrewParts parts_of(const Experiment& experiment, const RunPlace& place,
                   Coordinator& coordinator) {
  CrewEvents events = events_for(coordinator);
  events.observer = make_probe(experiment, sink_for(events));
  return {.experiment = experiment,
          .files = place.files,
          .events = std::move(events)};
}

void run_in_one_thread(const Experiment& experiment, const RunPlace& place,
                       Coordinator& coordinator) {
  const Costs costs =
      experiment.virtual_time.calibrate
          ? calibrated(experiment, rehearsed(experiment, place, coordinator))
          : experiment.costs;
  const auto sink = sink_for(events_for(coordinator));
  std::optional<VirtualClock> clock;
  if (takes_time(costs))
    clock.emplace(experiment, costs, place.processes.folder, sink, place.clock);
  const bool is_recorded = runs_free(experiment.plans.front());
  const auto watch = [&](const TimedAction& timed) {
    if (clock) clock->watch(timed);
    if (is_recorded)
      sink->write(records::Actions{timed.seat, timed.action.phase,
                                   to_text(timed.action)});
  };
  const auto crew =
      make_virtual_crew(parts_of(experiment, place, coordinator),
                        {.costs = costs,
                         .saved = clock ? clock->start() : SavedClock(),
                         .watch = watch});
  run_to_end(*crew, coordinator);
  if (clock) clock->report(crew->seconds());
}

}  // namespace

void run_engine(const Experiment& experiment, const RunPlace& place,
                Coordinator& coordinator) {
  const bool is_calibrated = experiment.engine == Engine::virtual_time &&
                             experiment.virtual_time.calibrate;
  const bool forecasts =
      experiment.forecast && !place.is_forecast && !is_calibrated;
  const bool has_processes = experiment.engine == Engine::processes;
  if (!has_processes || forecasts) prepare_process(experiment);
  if (forecasts) rehearsed(experiment, place, coordinator);
  if (experiment.engine == Engine::virtual_time)
    return run_in_one_thread(experiment, place, coordinator);
  ProcessPlace processes = place.processes;
  processes.check = [&] {
    if (processes.rank && coordinator.is_stopping())
      throw InterruptError("stopped while rank 0 waited for the other ranks");
  };
  const CrewParts parts = parts_of(experiment, place, coordinator);
  run_to_end(*(has_processes ? make_process_crew(parts, processes)
                             : make_thread_crew(parts)),
             coordinator);
}

}  // namespace sluice
