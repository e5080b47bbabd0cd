// What seats of one block do with each other's gradients and weights.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/config.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/replicas/groups/memory.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/replicas/replicas.h"
#include "tests/lib/workers/seats_under_test.h"

namespace sluice::seat_replicas_test {

using namespace seats_under_test;

constexpr Grant kOneTurn{.end_turn = 1};
const std::vector<std::vector<int>> kOrders = {{1, 2}, {2, 1}};

ReplicaKind kind_of(const char* policy, const char* option = nullptr) {
  ConfigNode config{.value = ConfigNode::Table{}};
  if (option != nullptr) config.set(option, {.value = true});
  Fields fields(&config, "replicas");
  return find_row(replica_policies(), policy, "replica policy").make(fields);
}

/// Makes replicas of the seats of a plan, one after the other, in groups.
SeatChain grouped(std::vector<double> weights, const ReplicaKind& kind,
                  const RunPlan& one, const SeatChain::Change& change = {}) {
  const int depth = one.depth();
  std::vector<std::vector<std::unique_ptr<Group>>> groups;
  for (int block = 1; block <= depth; ++block)
    groups.push_back(memory_group(2, std::chrono::seconds(20), "a block"));
  return {std::move(weights), with_replicas(one, 2, kind.exchange),
          [&](int number, SeatSettings& settings, SeatParts& parts) {
            const int replica = (number - 1) / depth + 1;
            settings.replicas = kind;
            parts.replicas.group = std::move(
                by_block(by_block(groups, parts.block.index()), replica));
            if (change) change(number, settings, parts);
          }};
}

/// Two replicas of a block of weight 2. The loss of batch t is (2x)^2 / 2: in
/// turn 0 replica 1 has the gradient 2, replica 2 the gradient 8.
SeatChain two_replicas(const ReplicaKind& kind) {
  return grouped({2}, kind, plan_of_turns({}));
}

/// Weights after a turn, in either order of the replicas' actions.
void expect_weights(const ReplicaKind& kind, const std::vector<double>& weights,
                    const Grant& grant = kOneTurn) {
  for (const std::vector<int>& order : kOrders) {
    SeatChain replicas = two_replicas(kind);
    replicas.start(grant);
    replicas.run(grant, order);
    for (int r = 1; r <= 2; ++r)
      EXPECT_NEAR(replicas.weight(r),
                  weights.at(static_cast<std::size_t>(r) - 1), 1e-6)
          << "replica " << r << ", first " << order[0];
  }
}

TEST(SeatReplicas, ApplyTheMeanOfTheirGradients) {
  expect_weights(kind_of("all_reduce"), {2 - kRate * 5, 2 - kRate * 5});
}

TEST(SeatReplicas, GatherTheWeightsThatEachHasUpdated) {
  expect_weights(kind_of("all_reduce", "shard"),
                 {2 - kRate * 5, 2 - kRate * 5});
}

TEST(SeatReplicas, TakeTheMeanOfTheirWeights) {
  expect_weights(kind_of("average"), {2 - kRate * 5, 2 - kRate * 5});
}

TEST(SeatReplicas, StepByTheGradientsOfTheirPeers) {
  expect_weights(kind_of("neighbours"),
                 {2 - kRate * (2 + 8), 2 - kRate * (2 + 8)});
}

TEST(SeatReplicas, MixTheWeightsOfTheirPeers) {
  // Each has the mean of both before the update, 2, and its own gradient.
  expect_weights(kind_of("gossip"), {2 - kRate * 2, 2 - kRate * 8});
}

TEST(SeatReplicas, AgreeOnTheWeightsThatAreEvaluated) {
  ReplicaKind gossip = kind_of("gossip");
  gossip.exchange.agrees = true;
  SeatChain replicas = two_replicas(gossip);
  const Grant evaluating{.end_turn = 1, .evaluation_batches = 1};
  replicas.start(evaluating);
  replicas.run(evaluating, {1, 2});
  EXPECT_NEAR(SeatChain::only(values_of(replicas.seat(1).evaluated_weights())),
              2 - kRate * 5, 1e-6);
  EXPECT_NEAR(replicas.weight(1), 2 - kRate * 2, 1e-6) << "training goes on";
}

/// An end with one number that learns: its gradient is the one from above.
class LearningLower final : public PlainLower {
 public:
  using PlainLower::PlainLower;
  NamedTensors learners() const override { return {{"learner", number}}; }
  Lesson learn(const BatchContext& context) override {
    return {.gradients = {context.from_above[0].detach().reshape({1})},
            .loss = {}};
  }

  at::Tensor number = at::zeros({1});
};

TEST(SeatReplicas, LearnFromTheMeanOfTheirLessons) {
  const Traits cut{.cut = true,
                   .own = true,
                   .lower = {.learns = true, .learns_by_steps = true}};
  for (const std::vector<int>& order :
       {std::vector{1, 2, 3, 4}, {4, 3, 2, 1}, {1, 3, 2, 4}}) {
    std::vector<std::shared_ptr<LearningLower>> lowers;
    SeatChain replicas =
        grouped({2, 3}, kind_of("all_reduce"), plan_of_turns({cut}),
                [&](int, SeatSettings&, SeatParts& parts) {
                  if (parts.block.index() > 1) return;
                  lowers.push_back(std::make_shared<LearningLower>(cut));
                  parts.lowers = {lowers.back()};
                });
    replicas.start(kOneTurn);
    replicas.run(kOneTurn, order);
    for (const auto& lower : lowers)
      EXPECT_NEAR(lower->number.item<double>(), -kRate * (18 + 36) / 2, 1e-6);
  }
}

/// Two replicas with a parameter server, as two_replicas().
SeatChain two_served() {
  ReplicaKind kind = kind_of("server");
  kind.exchange.served = true;
  const CentreSetup setup{
      .members = 2,
      .name = "block 1",
      .quorum = quorum_of(kind, 2),
      .make = [make = kind.make_centre](const NamedTensors& parameters) {
        static const UpdateOptions options;
        return make(parameters, {.options = options, .members = 2});
      }};
  auto centres = links_to_centre(setup, 1, std::chrono::seconds(20));
  const RunPlan free =
      find_row(schedule_rows(), "free", "order").make({}, {.in_flight = 1});
  return {{2},
          with_replicas(free, 2, kind.exchange),
          [&](int number, SeatSettings& settings, SeatParts& parts) {
            settings.replicas = kind;
            parts.replicas.centres = std::make_unique<CentreWays>(
                std::move(by_block(centres, number)));
          }};
}

TEST(SeatReplicas, ServerServesThemInTheOrderOfTheirPushes) {
  for (const std::vector<int>& order : kOrders) {
    SeatChain replicas = two_served();
    replicas.start(kOneTurn);
    for (const int r : order)
      replicas.execute(r, "F0 B0 X0", ExchangeKind::push);
    for (const int r : order) {
      replicas.execute(r, "S0", ExchangeKind::push);
      EXPECT_EQ(replicas.seat(r).served_as(), r == order[0] ? 1 : 2);
      replicas.execute(r, "U0");
    }
    const double first = order[0] == 1 ? 2 : 8;
    EXPECT_NEAR(replicas.weight(order[0]), 2 - kRate * first, 1e-6);
    EXPECT_NEAR(replicas.weight(order[1]), 2 - kRate * (2 + 8), 1e-6);
  }
}

}  // namespace sluice::seat_replicas_test
