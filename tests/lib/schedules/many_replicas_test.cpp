// Not timed; but without care about its cost it would take minutes.
#include <gtest/gtest.h>

#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

TEST(Replicas, AThousandOfThemAreSimulatedInSeconds) {
  constexpr int kReplicas = 1024;
  constexpr std::int64_t kTurns = 100;
  const RunPlan plan = with_replicas(make_run_plan({}, false), kReplicas,
                                     {.what = ExchangedTensors::gradients});
  Costs costs{.jitter = 0.2};
  costs.blocks = {{.seconds = {{Op::forward, 1}, {Op::backward, 2}}}};
  costs.exchange_bytes = {1e6};
  costs.exchange_link = {.latency = 1e-4, .bandwidth = 1e9};
  const auto timeline =
      simulate(plan, costs, capacities_of(plan, 0), Grant{.end_turn = kTurns});
  EXPECT_EQ(timeline.size(), kReplicas * kTurns * 5U);
}

}  // namespace
}  // namespace sluice
