// Actions whose times are drawn, and what they make of asynchronous SGD.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::service_test {

Costs costs_of(int replicas) {
  Costs costs{.service = Service::exponential, .seed = 5};
  for (int replica = 0; replica < replicas; ++replica)
    costs.blocks.push_back({.seconds = {{Op::forward, 1}}});
  return costs;
}

RunPlan plan_of(int replicas) {
  return with_replicas(
      make_free_plan({}, 1, 1), replicas,
      {.what = ExchangedTensors::gradients, .agrees = true, .served = true},
      false, Dealing::arrival);
}

TEST(Service, IsExponentialOfItsMean) {
  const RunPlan plan = plan_of(2);
  Costs costs = costs_of(2);
  costs.blocks[0].seconds[Op::forward] = 3;
  constexpr int kCount = 20000;
  double sum = 0;
  double squares = 0;
  for (std::int64_t batch = 0; batch < kCount; ++batch) {
    const double seconds =
        seconds_of(costs, plan.blocks[0], {Op::forward, batch, batch});
    sum += seconds;
    squares += seconds * seconds;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 3, 0.1);
  EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean), 3, 0.15);
  costs.service = Service::fixed;
  EXPECT_EQ(seconds_of(costs, plan.blocks[0], {Op::forward, 1, 1}), 3);
}

/// Replicas in the order in which a server takes their gradients, from 0.
std::vector<std::size_t> order_of(int replicas, std::int64_t updates) {
  Grant grant;
  grant.end_turn = updates / replicas;
  grant.drain = true;
  const RunPlan plan = plan_of(replicas);
  std::vector<std::size_t> order;
  for (const TimedAction& timed :
       simulate(plan, costs_of(replicas), capacities_of(plan, 2), grant))
    if (timed.action.op == Op::settle)
      order.push_back(static_cast<std::size_t>(timed.seat) - 1);
  return order;
}

constexpr std::size_t kSteps = 40;

/// E[w_t] of SGD on w * w / 2 from 1 on, over all beginnings in that order: a
/// gradient is that of what its replica had from the server last.
std::vector<double> means_of(const std::vector<std::size_t>& order,
                             int replicas, double rate) {
  std::vector<double> means(kSteps + 1, 0);
  const std::size_t beginnings = order.size() - kSteps;
  for (std::size_t first = 0; first < beginnings; ++first) {
    double weight = 1;
    std::vector<double> had(static_cast<std::size_t>(replicas), weight);
    means[0] += weight / static_cast<double>(beginnings);
    for (std::size_t step = 0; step < kSteps; ++step) {
      double& mine = had[order[first + step]];
      weight -= rate * mine;
      mine = weight;
      means[step + 1] += weight / static_cast<double>(beginnings);
    }
  }
  return means;
}

/// m of V_{t+1} = m V_t - (1 - m) rate w_t, V the steps, by least squares.
double momentum_in(const std::vector<double>& means, double rate) {
  double squares = 0;
  double products = 0;
  for (std::size_t t = 1; t + 1 < means.size(); ++t) {
    const double pull = rate * means[t];
    const double step = means[t] - means[t - 1] + pull;
    squares += step * step;
    products += step * (means[t + 1] - means[t] + pull);
  }
  return products / squares;
}

// Mitliagkas et al. 2016, arXiv:1605.09774, theorem 3: 1 - 1/N.
TEST(Service, ManyWorkersActAsAMomentum) {
  constexpr double kRate = 0.15;
  for (const int replicas : {1, 2, 4, 8, 16}) {
    const std::vector<std::size_t> order =
        replicas == 1 ? std::vector<std::size_t>(8000, 0)
                      : order_of(replicas, 8000);
    ASSERT_EQ(order.size(), 8000U);
    const double momentum =
        momentum_in(means_of(order, replicas, kRate), kRate);
    RecordProperty("of_" + std::to_string(replicas), std::to_string(momentum));
    EXPECT_NEAR(momentum, 1 - 1.0 / replicas, 0.05) << replicas;
  }
}

}  // namespace sluice::service_test
