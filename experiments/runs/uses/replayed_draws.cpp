#include "experiments/runs/uses/replayed_draws.h"

#include <cstdint>
#include <map>
#include <sstream>
#include <utility>

#include "experiments/runs/folder/run_reader.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/engines/coordinator.h"
#include "lib/engines/crew.h"
#include "lib/engines/virtual_crew.h"
#include "lib/metrics/records.h"

namespace sluice {

std::shared_ptr<const RecordedLessons> recorded_lessons_of(
    const std::string& run_folder) {
  auto lessons = std::make_shared<RecordedLessons>();
  for (const records::AssistedDraw& drawn :
       RunReader(run_folder).next<records::AssistedDraw>()) {
    std::vector<std::int64_t>& batches = (*lessons)[drawn.deal];
    batches.clear();
    std::istringstream numbers(drawn.learned);
    for (std::int64_t batch = 0; numbers >> batch;) batches.push_back(batch);
    if (!numbers.eof() || batches.empty())
      throw UserError(
          "{}: batch {} was drawn after the losses of '{}', which are no "
          "numbers of batches",
          metrics_of_run(run_folder), drawn.deal, drawn.learned);
  }
  return lessons;
}

ReplayResult replay_in_lockstep(Experiment experiment, SavedHashes saved) {
  prepare_process(experiment);
  // Every turn ends a grant: the run may have been stopped after any of them.
  RunLength length = experiment.length;
  length.grant_turns = 1;
  if (saved.last_turn() < length.turns) length.pause_turn = saved.last_turn();
  Coordinator coordinator(length, experiment.seats(), nullptr, nullptr);
  const CrewEvents events = events_for(coordinator);
  Seats seats;
  std::vector<Ends> ends = memory_ends(experiment);
  for (int seat = 1; seat <= experiment.seats(); ++seat)
    seats.push_back(make_seat(experiment, seat, std::move(by_block(ends, seat)),
                              sink_for(events), {}));
  ReplayResult replayed;
  const auto compare = [&, seats](const TimedAction& timed) {
    const std::int64_t turn = timed.action.batch;
    if (timed.action.op == Op::save && saved.has(turn))
      replayed.compared.push_back(
          saved.compared(*by_block(seats, timed.seat), turn));
  };
  VirtualCrew crew(seats,
                   {.plans = experiment.plans,
                    .capacities = experiment.capacities,
                    .threads = experiment.threads,
                    .watch = compare},
                   events);
  run_to_end(crew, coordinator);
  if (replayed.compared.empty() ||
      replayed.compared.back().turn != saved.last_turn())
    throw UserError("the replay never comes to the checkpoint of turn {}",
                    saved.last_turn());
  return replayed;
}

}  // namespace sluice
