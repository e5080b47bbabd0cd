#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

std::vector<TimedAction> run_to_end(Simulation& simulation) {
  std::vector<TimedAction> timeline;
  while (std::optional<TimedAction> done = simulation.next())
    timeline.push_back(*std::move(done));
  check_end(simulation);
  return timeline;
}

}  // namespace

Simulation granted(const RunPlan& plan, const Costs& costs,
                   const std::vector<Capacity>& capacities,
                   const Grant& grant) {
  Simulation simulation({plan}, costs, capacities);
  for (const BlockPlan& block : plan.blocks)
    simulation.give(block.seat(), grant);
  return simulation;
}

void check_end(const Simulation& simulation) {
  if (!simulation.finished())
    throw UserError("this schedule waits for itself: {}", simulation.stuck());
}

std::vector<TimedAction> simulate(const RunPlan& plan, const Costs& costs,
                                  const std::vector<Capacity>& capacities,
                                  const Grant& grant) {
  Simulation simulation = granted(plan, costs, capacities, grant);
  return run_to_end(simulation);
}

std::vector<TimedAction> simulate(
    const RunPlan& plan, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions) {
  return simulate(Plans{plan}, costs, capacities, actions);
}

std::vector<TimedAction> simulate(
    const Plans& plans, const Costs& costs,
    const std::vector<Capacity>& capacities,
    const std::vector<std::vector<Action>>& actions) {
  const std::vector<BlockPlan>& blocks = plans.at(0).blocks;
  SLUICE_CHECK(actions.size() == blocks.size(),
               "actions for {} blocks, the plan has {}", actions.size(),
               blocks.size());
  Simulation simulation(plans, costs, capacities);
  for (const BlockPlan& block : blocks)
    simulation.extend(block.seat(), by_block(actions, block.seat()));
  return run_to_end(simulation);
}

}  // namespace sluice
