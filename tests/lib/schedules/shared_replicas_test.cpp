// Replicas that share weights do not wait, except before an evaluation or a
// checkpoint, and until it is over.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::shared_replicas_schedule_test {

RunPlan plan_of(int replicas) {
  return with_replicas(
      find_row(schedule_rows(), "turns", "order").make({Traits{}}, {}),
      replicas, {.agrees = true, .in_memory = true});
}

Costs uneven(int replicas) {
  Costs costs{.jitter = 0.4, .seed = 3};
  for (int r = 0; r < replicas; ++r)
    for (int block = 1; block <= 2; ++block)
      costs.blocks.push_back(
          {.seconds = {{Op::forward, 1}, {Op::backward, 2}, {Op::update, 0.5}},
           .slowness = 1 + 0.3 * r});
  return costs;
}

Grant turns(std::int64_t first, std::int64_t end) {
  return {.first_turn = first, .end_turn = end, .checkpoint = true};
}

/// Forwards, backwards and updates of all seats in the order of their starts.
struct Line {
  std::string text = {};
  std::vector<double> ends = std::vector<double>(6);  ///< of all, by seat
};

/// Actions of turns from that one on. Each seat gets its next grant when it has
/// carried out the last.
Line done_in(Simulation& simulation, const std::vector<Grant>& grants,
             std::int64_t from = 0) {
  Line line;
  std::vector<std::size_t> given(line.ends.size());
  while (true) {
    for (int seat = 1; seat <= 6; ++seat)
      if (auto& n = by_block(given, seat);
          n < grants.size() && simulation.idle(seat))
        simulation.give(seat, grants[n++]);
    const auto timed = simulation.next();
    if (!timed) break;
    by_block(line.ends, timed->seat) = timed->end;
    const Op op = timed->action.op;
    const bool trains =
        op == Op::forward || op == Op::backward || op == Op::update;
    if (trains && timed->action.turn >= from)
      line.text +=
          to_text(timed->action) + "@" + std::to_string(timed->seat) + " ";
  }
  EXPECT_TRUE(simulation.finished()) << simulation.stuck();
  return line;
}

Simulation simulation_of(const RunPlan& plan, const Costs& costs) {
  return {{plan}, costs, capacities_of(plan, 0)};
}

TEST(SharedReplicasOrder, IsTheSameAfterAnEvaluationAndWithoutIt) {
  const RunPlan plan = plan_of(3);
  const auto line = [&](std::int64_t evaluation_batches) {
    Simulation simulation = simulation_of(plan, uneven(3));
    Grant first = turns(0, 5);
    first.evaluation_batches = evaluation_batches;
    return done_in(simulation, {first, turns(5, 12)});
  };
  EXPECT_EQ(line(7).text, line(0).text);
  EXPECT_GT(line(7).ends[2], line(0).ends[2] + 3) << "all have waited";
}

TEST(SharedReplicasOrder, GoesOnInAContinuedRun) {
  const RunPlan plan = plan_of(3);
  Simulation whole = simulation_of(plan, uneven(3));
  const Line line = done_in(whole, {turns(0, 5), turns(5, 12)}, 5);

  Simulation first = simulation_of(plan, uneven(3));
  Grant part = turns(0, 5);
  part.evaluation_batches = 4;  // a run that was to end there evaluates
  const Line begun = done_in(first, {part});
  Simulation second = simulation_of(plan, uneven(3));
  second.begin_at(0, 5, 0, {.seats = begun.ends});
  EXPECT_EQ(done_in(second, {turns(5, 12)}).text, line.text);

  Costs others = uneven(3);
  others.seed = 4;
  Simulation third = simulation_of(plan, others);
  third.begin_at(0, 5, 0);
  EXPECT_NE(done_in(third, {turns(5, 12)}).text, line.text);
}

TEST(SharedReplicasOrder, IsOfNobodyWhoWaitsInBetween) {
  const RunPlan plan = plan_of(3);
  Simulation simulation = simulation_of(plan, uneven(3));
  const std::string text = done_in(simulation, {turns(0, 12)}).text;
  // The fastest replica's last update comes long before the slowest's.
  EXPECT_LT(text.find("U11@1 "), text.find("U9@5 "));
}

}  // namespace sluice::shared_replicas_schedule_test
