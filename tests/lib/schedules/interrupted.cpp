#include "tests/lib/schedules/interrupted.h"

#include <limits>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice {
namespace {

/// Without the checkpoint and what comes after it.
void cut(std::int64_t turn, std::vector<Action>& line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i].op == Op::save && line[i].batch == turn) return line.resize(i);
}

}  // namespace

std::vector<std::vector<Action>> run_through(const std::vector<Grant>& grants,
                                             std::size_t blocks,
                                             Simulation& simulation) {
  std::vector<std::vector<Action>> lines(blocks);
  std::vector<std::size_t> given(blocks, 0);
  while (true) {
    bool is_anew = false;
    for (std::size_t k = 0; k < blocks; ++k)
      while (given[k] < grants.size() &&
             simulation.idle(static_cast<int>(k) + 1)) {
        simulation.give(static_cast<int>(k) + 1, grants[given[k]++]);
        is_anew = true;
      }
    if (const auto timed = simulation.next())
      by_block(lines, timed->seat).push_back(timed->action);
    else if (!is_anew)
      break;
  }
  if (!simulation.finished())
    throw UserError("it waits for itself: {}", simulation.stuck());
  return lines;
}

std::vector<std::vector<Action>> actions_of_interrupted(
    const RunPlan& plan, const std::vector<Capacity>& capacities,
    const Costs& costs, const Costs& others, std::int64_t turn,
    const Grant& grant) {
  Grant rest = grant;
  rest.first_turn = turn;
  const Grant nothing{.first_turn = turn, .end_turn = turn};
  const std::size_t blocks = plan.blocks.size();
  Simulation first({plan}, costs, capacities);
  std::vector<std::vector<Action>> lines = run_through(
      {{.end_turn = turn, .checkpoint = true}, rest}, blocks, first);
  std::vector<Ledger> ledgers(blocks);
  for (std::size_t k = 0; k < blocks; ++k) {
    cut(turn, lines[k]);
    for (const Action& action : lines[k])
      ledgers[k].did(plan.blocks[k], action);
  }
  Simulation second({plan}, others, capacities);
  second.begin_free_at(0, ledgers);
  const auto after = run_through({nothing, rest}, blocks, second);
  for (std::size_t k = 0; k < blocks; ++k)
    lines[k].insert(lines[k].end(), after[k].begin(), after[k].end());
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  simulate(plan, {}, std::vector<Capacity>(blocks - 1, {kAll, kAll}), lines);
  return lines;
}

}  // namespace sluice
