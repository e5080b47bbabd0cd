// Replicas that come to a server, or to a centre, one after the other.
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/replicas/replica_policy.h"

namespace sluice::server_test {

const at::Tensor kStart = at::arange(4, at::kDouble);

ReplicaRules rules_of(std::string_view name, const ConfigNode& config,
                      int member, int members) {
  Fields fields(&config, "replicas");
  ReplicaRules rules =
      find_row(replica_policies(), name, "replica policy")
          .make(fields)
          .make({{"w", kStart}}, {.member = member, .members = members});
  rules.policy->begin({kStart});
  return rules;
}

ReplicaRules server_of(int member, int members) {
  return rules_of("server", {.value = ConfigNode::Table{}}, member, members);
}

/// A turn of it: each replica's gradient is a step by `by`, times its number.
/// Returns how late each step says it is.
std::vector<std::int64_t> turn_of(const ReplicaRules& rules, int members,
                                  double by) {
  StepRule& server = *rules.steps;
  std::vector<std::int64_t> late;
  Tensors weights = {server.before_steps()[0].clone()};
  for (int member = 1; member <= members; ++member) {
    const auto i = static_cast<std::size_t>(member) - 1;
    late.push_back(server.told_of_step(i, {}).in_updates.sum);
    weights[0] = weights[0] + by * member;
    server.stepped(i, weights);
  }
  return late;
}

TEST(Server, IsOtherReplicasUpdatesAheadOfEachGradient) {
  const auto server = server_of(2, 4);
  EXPECT_EQ(server.steps->late_by(0), 1);
  EXPECT_EQ(turn_of(server, 4, 1), (std::vector<std::int64_t>{0, 1, 2, 3}));
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(server.steps->late_by(0), 3);
    EXPECT_EQ(turn_of(server, 4, 1), (std::vector<std::int64_t>(4, 3)));
  }
}

TEST(Server, CountsItsStalenessBesideThatOfTheBoundaries) {
  const auto server = server_of(1, 2);
  for (int turn = 0; turn < 5; ++turn) turn_of(server, 2, 1);
  // An update of a replica is two steps of the server, and one comes between.
  const UpdateInfo info = server.steps->told_of_step(
      0, {.batches = 3, .in_updates = {.sum = 6, .most = 4}});
  EXPECT_EQ(info.in_updates.sum, 2 * 6 + 3);
  EXPECT_EQ(info.in_updates.most, 2 * 4 + 1);
  EXPECT_EQ(server.steps->late_by(4), 2 * 4 + 1);
  EXPECT_EQ(server.steps->late_by(5), 2 * 5) << "of the first weights";
}

TEST(Server, AddsUpWhatIsPushedAndGivesEachWhatIsThereAfterItsOwn) {
  for (const int member : {1, 2, 3}) {
    const auto server = server_of(member, 3);
    turn_of(server, 3, 1);
    turn_of(server, 3, 10);
    EXPECT_TRUE(server.policy->consensus({})[0].equal(kStart + 66));
    const double own = member == 1 ? 16 : member == 2 ? 36 : 66;
    EXPECT_TRUE(server.steps->after_steps()[0].equal(kStart + own)) << member;
    EXPECT_TRUE(server.steps->told_of_step(1, {}).forward_weights[0].equal(
        kStart + 36.0));
  }
}

TEST(Server, GoesOnFromItsState) {
  const auto server = server_of(2, 3);
  turn_of(server, 3, 1);
  const auto other = server_of(2, 3);
  const NamedTensors from = server.policy->state();
  const NamedTensors into = other.policy->state();
  ASSERT_EQ(from.size(), into.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    into[i].second.copy_(from[i].second);
  EXPECT_EQ(turn_of(other, 3, 2), turn_of(server, 3, 2));
  EXPECT_TRUE(
      other.steps->after_steps()[0].equal(server.steps->after_steps()[0]));
}

std::shared_ptr<ReplicaPolicy> elastic_of(double beta, int member,
                                          int members) {
  ConfigNode config{.value = ConfigNode::Table{}};
  config.set("beta", {.value = beta});
  config.set("one_by_one", {.value = true});
  return rules_of("elastic", config, member, members).policy;
}

at::Tensor centre_of(const ReplicaPolicy& policy) {
  return policy.consensus({}).at(0);
}

TEST(ElasticOneByOne, KeepsTheSumOfReplicasAndCentre) {
  std::vector<std::shared_ptr<ReplicaPolicy>> policies;
  std::vector<Tensors> weights;
  for (int member = 1; member <= 3; ++member) {
    policies.push_back(elastic_of(0.9, member, 3));
    weights.push_back({kStart * member + 1});
  }
  const auto sum = [&] {
    return weights[0][0] + weights[1][0] + weights[2][0] +
           centre_of(*policies[0]);
  };
  const at::Tensor before = sum();
  for (int round = 0; round < 5; ++round) {
    const std::vector<Tensors> published = weights;
    for (std::size_t r = 0; r < 3; ++r)
      weights[r][0] =
          weights[r][0] +
          policies[r]->combine(
              weights[r], {.published = published, .own = r, .parts = 3})[0];
    EXPECT_LT((sum() - before).abs().max().item<double>(), 1e-12);
    EXPECT_TRUE(centre_of(*policies[2]).equal(centre_of(*policies[0])));
  }
}

TEST(ElasticOneByOne, MeetsTheCentreHalfWayAndSwapsWithIt) {
  const std::vector<Tensors> published = {{kStart + 4.0}, {kStart + 8.0}};
  const auto half = elastic_of(1.0, 2, 2);  // alpha is 1 / 2
  const at::Tensor pull = half->combine(
      published[1], {.published = published, .own = 1, .parts = 2})[0];
  // The first has left the centre at + 2; both meet between that and + 8.
  EXPECT_TRUE((published[1][0] + pull).equal(kStart + 5.0));
  EXPECT_TRUE(centre_of(*half).equal(kStart + 5.0));
  const auto whole = elastic_of(2.0, 2, 2);
  const at::Tensor swap = whole->combine(
      published[1], {.published = published, .own = 1, .parts = 2})[0];
  EXPECT_TRUE((published[1][0] + swap).equal(kStart + 4.0));
  EXPECT_TRUE(centre_of(*whole).equal(kStart + 8.0));
}

}  // namespace sluice::server_test
