// What exchanges of replicas take in a prediction: where all wait for all, and
// where a centre serves who comes.
#include "experiments/planner/exchange_work.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/planner/comparison.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::planner::exchange_work_test {

constexpr double kForward = 1;
constexpr double kBackward = 2;
constexpr double kUpdate = 1;
/// Sums and copies of so few weights take next to nothing.
constexpr double kNothing = 0.01;

Experiment experiment_of(int replicas, const std::string& policy,
                         const std::string& more) {
  return small_experiment(
      fmt::format("blocks = 1\nreplicas = {{count = {}, policy = {}}}\n",
                  replicas, policy) +
      more);
}

Costs costs_of(const Experiment& experiment) {
  Costs costs = experiment.costs;
  costs.blocks = {{.seconds = {{Op::forward, kForward},
                               {Op::backward, kBackward},
                               {Op::update, kUpdate}}}};
  costs.in_one_block = kForward + kBackward + kUpdate;
  add_exchanges(experiment, costs);
  return costs;
}

double speed_up(int replicas, const std::string& policy,
                const std::string& more) {
  const Experiment experiment = experiment_of(replicas, policy, more);
  const RunPlan& plan = experiment.plans.front();
  return predicted_speed(plan, by_seat(costs_of(experiment), plan),
                         experiment.capacities)
      .speed_up;
}

constexpr const char* kServer = "'server'";
constexpr const char* kFree = "schedule = 'free'\n";

TEST(PlannedServer, HasEachReplicaMakeAllUpdates) {
  for (const int replicas : {2, 4})
    EXPECT_NEAR(speed_up(replicas, kServer, ""),
                replicas * 4 / (kForward + kBackward + replicas * kUpdate),
                kNothing);
}

// A replica comes again after a forward and a backward, and is served when all
// who came before it were.
TEST(PlannedFreeServer, MakesOneUpdateForEachGradient) {
  for (const int replicas : {2, 4, 8}) {
    const double cycle =
        std::max(kForward + kBackward + kUpdate, replicas * kUpdate);
    EXPECT_NEAR(speed_up(replicas, kServer, kFree), replicas * 4 / cycle,
                replicas * kNothing);
  }
}

TEST(PlannedFreeServer,
     PlannedFreeServerOfSeveralGradientsToAnUpdateMakesFewer) {
  const Costs costs =
      costs_of(experiment_of(8, "'server', softsync = 2", kFree));
  EXPECT_NEAR(costs.blocks[0].seconds[Op::settle], kUpdate / 4, kNothing);
  EXPECT_NEAR(costs.blocks[0].seconds[Op::update], 0, kNothing);
}

TEST(PlannedFreeElastic, UpdatesItsOwnWeightsAndMixesThem) {
  const Costs costs =
      costs_of(experiment_of(4, "'elastic', one_by_one = true", kFree));
  EXPECT_EQ(costs.blocks[0].seconds[Op::update], kUpdate);
  EXPECT_NEAR(costs.blocks[0].seconds[Op::settle], 0, kNothing);
}

}  // namespace sluice::planner::exchange_work_test
