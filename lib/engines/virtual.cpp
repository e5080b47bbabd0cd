#include "lib/engines/virtual.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "lib/schedules/free_running.h"

namespace sluice {
namespace {

/// Which grants a block has carried out, and which it is at.
class Progress {
 public:
  Progress(int block, Coordinator& coordinator)
      : block_(block), coordinator_(coordinator) {}

  /// An idle block reports what it has reached, and gets its next actions, if
  /// there are any yet; when it had to wait for them, they don't start before
  /// `now`. Grants without actions for it are passed over. Returns whether that
  /// changed anything.
  bool refill(Simulation& simulation, double now) {
    bool changed = false;
    while (simulation.idle(block_)) {
      if (at_grant_) coordinator_.reached(block_, next_++);
      const Coordinator::Asked asked = coordinator_.ask(next_);
      changed = changed || at_grant_;
      at_grant_ = asked.answer == Coordinator::Answer::granted;
      if (asked.answer == Coordinator::Answer::later) waited_ = true;
      if (!at_grant_) break;
      if (std::exchange(waited_, false)) simulation.hold(block_, now);
      simulation.give(block_, asked.grant);
      changed = true;
    }
    return changed;
  }

 private:
  int block_;
  Coordinator& coordinator_;
  std::size_t next_ = 0;
  bool at_grant_ = false;
  bool waited_ = false;
};

/// What blocks that run free have in flight is no function of the turn: their
/// workers say it.
void begin_all(const Grant& first,
               const std::vector<std::unique_ptr<Worker>>& workers,
               const Plans& plans, const SavedClock& saved,
               Simulation& simulation) {
  for (const auto& worker : workers) worker->start(first);
  if (!runs_free(plans.at(0)))
    return simulation.begin_at(first.phase, first.first_turn, first.first_batch,
                               saved);
  std::vector<Ledger> ledgers;
  ledgers.reserve(workers.size());
  for (const auto& worker : workers) ledgers.push_back(worker->ledger());
  simulation.begin_free_at(first.phase, ledgers, saved);
}

}  // namespace

double run_virtual(const std::vector<std::unique_ptr<Worker>>& workers,
                   const Plans& plans, const std::vector<Capacity>& capacities,
                   const Costs& costs, Coordinator& coordinator,
                   const std::function<void(const TimedAction&)>& watch,
                   const SavedClock& saved) {
  Simulation simulation(plans, costs, capacities);
  begin_all(coordinator.ask(0).grant, workers, plans, saved, simulation);
  std::vector<Progress> progress;
  for (int block = 1; block <= std::ssize(workers); ++block)
    progress.emplace_back(block, coordinator);
  double seconds = saved.latest();
  // A grant may wait for what another block has reached, so all are asked until
  // nobody gets anything new.
  const auto refill = [&] {
    bool changed_any = false;
    for (bool changed = true; changed;) {
      changed = false;
      for (Progress& block : progress)
        changed = block.refill(simulation, seconds) || changed;
      changed_any = changed_any || changed;
    }
    return changed_any;
  };
  refill();
  while (true) {
    const std::optional<TimedAction> timed = simulation.next();
    // A block may also be done because it sees that no more batches come.
    if (!timed && refill()) continue;
    if (!timed) break;
    const auto index = static_cast<std::size_t>(timed->block) - 1;
    workers[index]->execute(timed->action);
    if (const auto& dropped = timed->action.dropped; !dropped.empty()) {
      workers[index]->ports().count_dropped(dropped.size());
      workers[index + 1]->ports().skip(dropped);
    }
    seconds = std::max(seconds, timed->end);
    if (watch) watch(*timed);
    if (simulation.idle(timed->block)) refill();
  }
  if (!simulation.finished())
    throw UserError("the run waits for itself: {}", simulation.stuck());
  for (const auto& worker : workers) worker->finish();
  return seconds;
}

}  // namespace sluice
