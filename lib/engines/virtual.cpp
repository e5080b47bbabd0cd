#include "lib/engines/virtual.h"

#include <algorithm>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Which grants a block has carried out, and which it is at.
class Progress {
 public:
  Progress(const BlockPlan& plan, Coordinator& coordinator)
      : plan_(plan), coordinator_(coordinator) {}

  /// An idle block reports what it has reached, and gets its next actions.
  /// Grants without actions for it are passed over. False at the run's end.
  bool refill(Simulation& simulation) {
    while (simulation.idle(plan_.block)) {
      if (at_grant_) coordinator_.reached(plan_.block, next_++);
      const std::optional<Grant> grant = coordinator_.grant(next_);
      at_grant_ = grant.has_value();
      if (!grant) return false;
      simulation.extend(plan_.block, actions_of(plan_, *grant));
    }
    return true;
  }

 private:
  BlockPlan plan_;
  Coordinator& coordinator_;
  std::size_t next_ = 0;
  bool at_grant_ = false;
};

}  // namespace

double run_virtual(const std::vector<std::unique_ptr<Worker>>& workers,
                   const RunPlan& plan, const std::vector<Capacity>& capacities,
                   const Costs& costs, Coordinator& coordinator,
                   const std::function<void(const TimedAction&)>& watch) {
  Simulation simulation(plan, costs, capacities);
  std::vector<Progress> progress;
  for (const BlockPlan& block : plan.blocks)
    progress.emplace_back(block, coordinator);
  double seconds = 0;
  for (Progress& block : progress) block.refill(simulation);
  while (const std::optional<TimedAction> timed = simulation.next()) {
    const auto index = static_cast<std::size_t>(timed->block) - 1;
    workers[index]->execute(timed->action);
    seconds = std::max(seconds, timed->end);
    if (watch) watch(*timed);
    progress[index].refill(simulation);
  }
  if (!simulation.finished())
    throw UserError("the run waits for itself: {}", simulation.stuck());
  return seconds;
}

}  // namespace sluice
