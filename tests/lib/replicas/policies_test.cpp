#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/replicas/replica_policy.h"
#include "lib/tensors/sums.h"

namespace sluice::policies_test {

const at::Tensor kStart = at::arange(4, at::kDouble);

using Options = std::vector<
    std::pair<const char*, std::variant<bool, double, std::int64_t>>>;

ConfigNode table_of(const Options& options) {
  ConfigNode table{.value = ConfigNode::Table{}};
  for (const auto& [key, value] : options)
    std::visit([&, name = key](auto of) { table.set(name, {.value = of}); },
               value);
  return table;
}

std::shared_ptr<ReplicaPolicy> policy_of(std::string_view name,
                                         const Options& options) {
  const ConfigNode config = table_of(options);
  Fields fields(&config, "replicas");
  const ReplicaKind kind =
      find_row(replica_policies(), name, "replica policy").make(fields);
  auto policy = kind.make({{"w", kStart}}, {}).policy;
  policy->begin({kStart});
  return policy;
}

/// What each of the policies of all replicas makes of their weights.
std::vector<at::Tensor> exchanged(
    const std::vector<std::shared_ptr<ReplicaPolicy>>& policies,
    const std::vector<at::Tensor>& weights, double rate = 1) {
  std::vector<Tensors> parts;
  for (const at::Tensor& each : weights) parts.push_back({each});
  std::vector<at::Tensor> all;
  for (std::size_t r = 0; r < weights.size(); ++r)
    all.push_back(
        policies[r]->combine({weights[r]}, {.mean = mean_in_order(parts),
                                            .parts = std::ssize(weights),
                                            .rate = rate})[0]);
  return all;
}

std::vector<std::shared_ptr<ReplicaPolicy>> policies_of(
    std::size_t count, std::string_view name, const Options& options) {
  std::vector<std::shared_ptr<ReplicaPolicy>> all;
  for (std::size_t r = 0; r < count; ++r)
    all.push_back(policy_of(name, options));
  return all;
}

/// Weights that replicas may have come to.
std::vector<at::Tensor> some_weights(std::size_t count) {
  at::manual_seed(7);
  std::vector<at::Tensor> all;
  for (std::size_t r = 0; r < count; ++r)
    all.push_back(kStart + at::randn(4, at::kDouble));
  return all;
}

at::Tensor sum_of(const std::vector<at::Tensor>& all) {
  return at::stack(all).sum(0);
}

at::Tensor centre_of(const ReplicaPolicy& policy) {
  return policy.consensus({}).at(0);
}

void expect_close(const at::Tensor& left, const at::Tensor& right) {
  EXPECT_LT((left - right).abs().max().item<double>(), 1e-12);
}

TEST(Average, IsTheMean) {
  const auto policies = policies_of(3, "average", {});
  const auto weights = some_weights(3);
  for (const at::Tensor& each : exchanged(policies, weights))
    expect_close(each, sum_of(weights) / 3);
}

TEST(Average, AverageOfEqualReplicasChangesNothing) {
  const auto policies = policies_of(4, "average", {});
  const at::Tensor same = some_weights(1)[0];
  expect_close(exchanged(policies, {same, same, same, same})[2], same);
}

// BMUF's filter: W(n) = W(n-1) + D(n), D(n) = eta D(n-1) + zeta G(n).
TEST(Average, WithAnOuterMomentumIsBmuf) {
  const auto policies =
      policies_of(2, "average", {{"outer_lr", 0.9}, {"outer_momentum", 0.5}});
  at::Tensor global = kStart.clone();
  at::Tensor filter = at::zeros_like(kStart);
  for (int round = 0; round < 4; ++round) {
    std::vector<at::Tensor> weights;
    for (const at::Tensor& each : some_weights(2))
      weights.push_back(global + (round + 1) * (each - kStart));
    filter = 0.5 * filter + 0.9 * (sum_of(weights) / 2 - global);
    global = global + filter;
    expect_close(exchanged(policies, weights)[1], global);
  }
}

// Wg(n) = W(n) + eta D(n), and the next round begins there: with a constant
// movement G both forms go zeta G / (1 - eta) a round in the end.
TEST(Average, MovesAsFarInBothFormsOfBmuf) {
  for (const bool nesterov : {false, true}) {
    const auto policies = policies_of(
        1, "average", {{"outer_momentum", 0.75}, {"outer_nesterov", nesterov}});
    at::Tensor global = kStart.clone();
    at::Tensor before;
    for (int round = 0; round < 120; ++round) {
      before = global;
      global = exchanged(policies, {global + 1.0})[0].clone();
    }
    expect_close(global - before, at::full(4, 4.0, at::kDouble));
  }
}

// SlowMo: u = beta u + (w0 - mean) / rate; w0 -= alpha rate u.
TEST(Average, PerRateHasItsMomentumInUnitsOfGradients) {
  const auto policies = policies_of(
      2, "average", {{"outer_momentum", 0.5}, {"outer_per_rate", true}});
  at::Tensor start = kStart.clone();
  at::Tensor momentum = at::zeros_like(kStart);
  for (const double rate : {0.1, 0.01}) {
    const auto weights = some_weights(2);
    momentum = 0.5 * momentum + (start - sum_of(weights) / 2) / rate;
    start = start - rate * momentum;
    expect_close(exchanged(policies, weights, rate)[0], start);
  }
}

TEST(Average, KeepsAPartOfItsOwnWeightsWithAMixing) {
  const auto policies = policies_of(2, "average", {{"mixing", 0.25}});
  const auto weights = some_weights(2);
  const auto mixed = exchanged(policies, weights);
  for (std::size_t r = 0; r < 2; ++r)
    expect_close(mixed[r], 0.75 * sum_of(weights) / 2 + 0.25 * weights[r]);
}

// theta = (1 - alpha) global + alpha theta, tau updates after the global
// weights were made of what the replicas had then.
TEST(Average, HasWeightsThatTravelledAfterSoManyUpdates) {
  const auto policies = policies_of(2, "average",
                                    {{"every", std::int64_t{4}},
                                     {"overlap", std::int64_t{2}},
                                     {"mixing", 0.25},
                                     {"outer_lr", 0.5},
                                     {"outer_momentum", 0.5}});
  const auto weights = some_weights(2);
  EXPECT_FALSE(policies[0]->updated({weights[0]})) << "nothing travels";
  for (std::size_t r = 0; r < 2; ++r) policies[r]->offer({weights[r]});
  const at::Tensor later = weights[0] + 1;
  EXPECT_FALSE(policies[0]->updated({later}));
  const at::Tensor global = kStart - 0.5 * (kStart - sum_of(weights) / 2);
  policies[0]->combine({later}, {.mean = {sum_of(weights) / 2}, .parts = 2});
  const at::Tensor last = weights[0] + 2;
  const auto taken = policies[0]->updated({last});
  ASSERT_TRUE(taken);
  expect_close(taken->at(0), 0.75 * global + 0.25 * last);
  EXPECT_FALSE(policies[0]->updated({last})) << "it is over";
}

TEST(Elastic, MovesBothSidesByTheOldWeights) {
  const auto policies = policies_of(3, "elastic", {{"beta", 0.6}});
  const auto weights = some_weights(3);
  const auto pulls = exchanged(policies, weights);
  for (std::size_t r = 0; r < 3; ++r)
    expect_close(pulls[r], 0.2 * (kStart - weights[r]));
  expect_close(centre_of(*policies[1]),
               0.4 * kStart + 0.6 * sum_of(weights) / 3);
}

TEST(Elastic, KeepsTheSumOfReplicasAndCentre) {
  const auto policies = policies_of(3, "elastic", {{"beta", 0.9}});
  auto weights = some_weights(3);
  const at::Tensor before = sum_of(weights) + centre_of(*policies[0]);
  for (int round = 0; round < 5; ++round) {
    const auto pulls = exchanged(policies, weights);
    for (std::size_t r = 0; r < 3; ++r) weights[r] = weights[r] + pulls[r];
    expect_close(sum_of(weights) + centre_of(*policies[2]), before);
  }
}

TEST(Elastic, ElasticOfOneReplicaMeetsItsCentreHalfWayAndSwapsWithIt) {
  for (const double beta : {0.5, 1.0}) {
    const auto policies = policies_of(1, "elastic", {{"beta", beta}});
    const at::Tensor mine = some_weights(1)[0];
    const at::Tensor now = mine + exchanged(policies, {mine})[0];
    const at::Tensor middle = (mine + kStart) / 2;
    expect_close(now, beta == 0.5 ? middle : kStart);
    expect_close(centre_of(*policies[0]), beta == 0.5 ? middle : mine);
  }
}

/// Largest element of what is between the mean of three replicas and their
/// centre after many exchanges without a gradient.
double far_after_exchanges(double beta) {
  constexpr std::size_t kCount = 3;
  const auto policies = policies_of(kCount, "elastic", {{"beta", beta}});
  std::vector<at::Tensor> weights = some_weights(kCount);
  for (int exchange = 0; exchange < 300; ++exchange) {
    const auto pulls = exchanged(policies, weights);
    for (std::size_t r = 0; r < kCount; ++r) weights[r] = weights[r] + pulls[r];
  }
  return (sum_of(weights) / 3 - centre_of(*policies[0]))
      .abs()
      .max()
      .item<double>();
}

// 1 - beta - beta / N is -1 there: what plans with more are refused for.
TEST(Elastic, ExchangesAloneDriveReplicasApartAboveTwoNOverNPlusOne) {
  constexpr double kEdge = 2.0 * 3 / (3 + 1);
  EXPECT_LT(far_after_exchanges(0.95 * kEdge), 1e-3);
  EXPECT_GT(far_after_exchanges(1.05 * kEdge), 1e3);
}

TEST(Elastic, WithoutBetaPullsNobody) {
  const auto policies = policies_of(2, "elastic", {{"beta", 0.0}});
  for (const at::Tensor& pull : exchanged(policies, some_weights(2)))
    EXPECT_TRUE(pull.equal(at::zeros_like(pull)));
}

}  // namespace sluice::policies_test
