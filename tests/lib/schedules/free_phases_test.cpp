// Blocks that run free, through the phases of a timetable, and from a
// checkpoint on.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/lib/schedules/interrupted.h"

namespace sluice::free_phases_test {

using testing::HasSubstr;

constexpr Traits kBackprop = {};
constexpr Traits kDelayed = {.delay = 1};
constexpr Traits kLocal = {.cut = true, .from_above = false, .own = true};
constexpr Traits kSynthetic = {
    .cut = true, .own = true, .lower = {.learns = true}};

Costs costs_with(const std::vector<double>& slowness, double latency = 0,
                 double jitter = 0) {
  Costs costs{.latency = latency, .jitter = jitter, .seed = 3};
  for (const double slow : slowness)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

/// Blocks through two phases, and what they do.
std::vector<std::vector<Action>> through_two_phases(
    const std::vector<Traits>& first, const std::vector<Traits>& then,
    const Costs& costs) {
  const Plans plans = {make_free_plan(first, 1, 3), make_free_plan(then, 1, 3)};
  const std::vector<Grant> grants = {{.end_turn = 5, .drain = true},
                                     {.first_turn = 5,
                                      .end_turn = 9,
                                      .phase = 1,
                                      .first_batch = 5,
                                      .drain = true}};
  Simulation simulation(plans, costs, capacities_of(plans, 0));
  return run_through(grants, plans[0].blocks.size(), simulation);
}

TEST(FreePhases, DrainBeforeANewOne) {
  for (const Costs& costs :
       {Costs{}, costs_with({1, 9, 1}), costs_with({7, 1, 2}, 0.5, 0.9)}) {
    const auto actions =
        through_two_phases({kDelayed, kDelayed}, {kLocal, kDelayed}, costs);
    const std::string line = to_text(actions[0]);
    EXPECT_THAT(line, HasSubstr("B4 U4 P1 F5 B5 U5 F6 B6 U6 F7"));
    EXPECT_THAT(to_text(actions[1]), HasSubstr("B4 U4 P1 F5"));
  }
}

TEST(FreePhases, AreRepeatedFromTheirRecord) {
  const std::vector<Traits> first = {kDelayed, kSynthetic};
  const std::vector<Traits> then = {kSynthetic, kDelayed};
  const auto actions =
      through_two_phases(first, then, costs_with({1, 6, 2}, 0.5, 0.9));
  std::vector<std::vector<Action>> read;
  std::vector<std::vector<Action>> without_phases;
  for (const std::vector<Action>& each : actions) {
    read.push_back(actions_from_text(to_text(each)));
    without_phases.push_back(each);
    for (Action& action : without_phases.back()) action.phase = 0;
  }
  const Plans plans = {make_free_plan(first, 1, 3), make_free_plan(then, 1, 3)};
  const std::vector<Capacity> roomy(2, {99, 99});
  EXPECT_EQ(simulate(plans, {}, roomy, read).size(),
            actions[0].size() + actions[1].size() + actions[2].size());
  EXPECT_THROW(simulate(plans, {}, roomy, without_phases), UserError);
  EXPECT_THROW(simulate(plans[0], {}, roomy, read), UserError);
}

/// What gradients are under way when block 1 has done some actions, and block 2
/// others.
std::vector<std::int64_t> under_way(const Traits& boundary,
                                    const std::string& below,
                                    const std::string& above) {
  const RunPlan plan = make_free_plan({boundary}, 1, 4);
  std::vector<Ledger> ledgers(2);
  for (const Action& action : actions_from_text(below))
    ledgers[0].did(plan.blocks[0], action);
  for (const Action& action : actions_from_text(above))
    ledgers[1].did(plan.blocks[1], action);
  std::vector<std::int64_t> batches;
  for (const Transfer& sent : under_way(plan, ledgers)) {
    EXPECT_EQ(sent.to, 1);
    batches.push_back(sent.batch);
  }
  return batches;
}

TEST(FreeCheckpoint, KnowsWhatIsUnderWay) {
  const std::string above = "F0 B0 U0 F1 B1 U1 F2";
  EXPECT_EQ(under_way(kDelayed, "F0 F1 F2 B0 U0", above),
            std::vector<std::int64_t>{1});
  EXPECT_EQ(under_way(kDelayed, "F0 F1 F2", above),
            (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(under_way(kSynthetic, "F0 B0 U0 F1 B1 U1 L0 F2 B2 U2", above),
            std::vector<std::int64_t>{1});
  EXPECT_TRUE(under_way(kLocal, "F0 B0 U0 F1 B1 U1 F2 B2 U2", above).empty());
}

// Blocks 2 and 3 learn from targets that are older than block 1's own delay.
TEST(FreeCheckpoint, IsGoneOnFromWhateverIsUnderWay) {
  Traits late = kSynthetic;
  late.lower.target_delay = 4;
  const Traits both{
      .delay = 1, .own = true, .lower = {.learns = true, .target_delay = 3}};
  for (const std::vector<Traits>& boundaries :
       {std::vector<Traits>{kDelayed, kDelayed},
        {kDelayed, kSynthetic, kDelayed},
        {kSynthetic, late, kDelayed},
        {kDelayed, both, both},
        {kSynthetic, both, kBackprop}})
    for (const std::int64_t in_flight : {0, 1, 4})
      for (const double slow : {1., 9.}) {
        const RunPlan plan = make_free_plan(boundaries, 2, in_flight);
        const Costs costs = costs_with({slow, 1, 10 - slow, 2}, 0.5, 0.9);
        const auto actions = actions_of_interrupted(
            plan, capacities_of(plan, 0), costs, costs_with({1, 4, 1, 7}), 6,
            {.end_turn = 14, .drain = true});
        for (const std::vector<Action>& block : actions) {
          const std::string text = to_text(block);
          EXPECT_EQ(std::count(text.begin(), text.end(), 'F'), 14) << text;
          EXPECT_EQ(std::count(text.begin(), text.end(), 'U'), 7) << text;
          EXPECT_THAT(text, HasSubstr(" U13"));
        }
      }
}

}  // namespace sluice::free_phases_test
