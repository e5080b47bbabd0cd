// Nearest neighbours training at a centre (specification: parallel, section B).
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/replicas/centre/centre_messages.h"
#include "lib/replicas/centre_rules.h"

namespace sluice::neighbour_centre_test {

at::Tensor start() {
  return at::arange(4, at::kDouble);
}

UpdateOptions sgd(double momentum = 0) {
  UpdateOptions options;
  options.optimizer.momentum = momentum;
  return options;
}

std::unique_ptr<CentreRule> ring_of(int members, std::int64_t adopt_every = 0,
                                    double momentum = 0) {
  auto rule = neighbour_centre({{"w", start()}}, sgd(momentum), members,
                               {.shape = PeerShape::ring}, adopt_every);
  rule->begin({start()}, 0);
  return rule;
}

Push push_of(int member, const at::Tensor& gradient, double loss = 0) {
  return {.member = member,
          .tensors = {gradient},
          .info = {.rate = 0.25},
          .loss = loss};
}

at::Tensor ones(double value) {
  return at::full({4}, value, at::kDouble);
}

TEST(NeighbourCentre, HasTheBitsOfAServerOnARingOfUpToThree) {
  for (const int members : {2, 3}) {
    at::manual_seed(members);
    const auto ring = ring_of(members, 0, 0.5);
    const auto server = gradient_centre({{"w", start()}}, sgd(0.5), members);
    server->begin({start()}, 0);
    std::vector<std::int64_t> clocks(static_cast<std::size_t>(members), 0);
    for (const int member : {1, 2, 2, 1, 2, 1, 1, 2}) {
      const int each = members == 3 && member == 2 ? 3 : member;
      Push push = push_of(each, at::randn({4}, at::kDouble));
      push.clock = clocks.at(static_cast<std::size_t>(each) - 1);
      const ServerAnswer mine = ring->serve(push);
      const ServerAnswer served = server->serve(push);
      EXPECT_TRUE(mine.tensors[0].equal(served.tensors[0])) << each;
      EXPECT_EQ(mine.missed, served.missed);
      EXPECT_EQ(mine.clock, served.clock);
      clocks.at(static_cast<std::size_t>(each) - 1) = mine.clock;
    }
    EXPECT_TRUE(ring->consensus()[0].equal(server->consensus()[0]));
  }
}

/// The weights of a replica of a ring, by what it has after nothing more.
at::Tensor weights_of(CentreRule& rule, int member) {
  return rule.serve(push_of(member, ones(0))).tensors[0];
}

TEST(NeighbourCentre, AppliesAGradientAtItsReplicaAndBothNeighboursAlone) {
  const auto ring = ring_of(5);
  ring->serve(push_of(2, ones(4)));
  for (const int taught : {1, 2, 3})
    EXPECT_TRUE(weights_of(*ring, taught).equal(start() - 1)) << taught;
  for (const int other : {4, 5})
    EXPECT_TRUE(weights_of(*ring, other).equal(start())) << other;
  EXPECT_TRUE(ring->consensus()[0].allclose(start() - 3.0 / 5, 1e-12));
}

TEST(NeighbourCentre, CountsStepsThatNeighboursMadeAReplicaTake) {
  const auto ring = ring_of(4);
  EXPECT_EQ(ring->serve(push_of(1, ones(1))).clock, 1);
  ring->serve(push_of(2, ones(1)));
  ring->serve(push_of(3, ones(1)));
  Push next = push_of(1, ones(1));
  next.clock = 1;
  const ServerAnswer served = ring->serve(next);
  EXPECT_EQ(served.missed, 1) << "that of 2; 3 is no neighbour";
  EXPECT_EQ(served.clock, 3);
}

TEST(NeighbourCentre, HasAllGoOnWithTheWeightsOfTheLowestMeanLoss) {
  const auto ring = ring_of(4, 6);
  ring->serve(push_of(1, ones(4), 0.5));
  ring->serve(push_of(1, ones(4), 0.7));
  ring->serve(push_of(2, ones(8), 0.4));
  ring->serve(push_of(3, ones(0), std::numeric_limits<double>::quiet_NaN()));
  ring->serve(push_of(4, ones(0), 0.9));
  // Replica 2 has its own step and those of 1: 2 + 1 + 1.
  const at::Tensor after = ring->serve(push_of(4, ones(0), 0.1)).tensors[0];
  EXPECT_TRUE(after.equal(start() - 4));
  EXPECT_TRUE(ring->consensus()[0].equal(start() - 4));
  for (const int member : {1, 2, 3, 4})
    EXPECT_TRUE(weights_of(*ring, member).equal(start() - 4)) << member;
}

TEST(NeighbourCentre, AdoptsFromNoReplicaThatIsLost) {
  const auto ring = ring_of(4, 3);
  ring->serve(push_of(1, ones(4), 0.1));
  ring->serve(push_of(3, ones(8), 0.5));
  ring->lose(1);
  ring->serve(push_of(4, ones(0), 0.9));
  EXPECT_TRUE(ring->consensus()[0].equal(start() - 2)) << "those of 3";
}

TEST(NeighbourCentre, TakesAReplicaBackWithTheMeanOfTheOthers) {
  const auto ring = ring_of(4);
  ring->serve(push_of(3, ones(4)));
  ring->lose(3);
  ring->serve(push_of(1, ones(0)));
  ring->serve(push_of(1, ones(0)));
  // 2 and 4 have moved by 1, and 1 not, which has made two steps.
  const ServerAnswer given = ring->take_back(3);
  EXPECT_TRUE(given.tensors[0].allclose(start() - 2.0 / 3, 1e-12));
  EXPECT_EQ(given.clock, 2);
  Push next = push_of(3, ones(0));
  next.clock = given.clock;
  EXPECT_EQ(ring->serve(next).missed, 0);
}

TEST(NeighbourCentre, AdoptsNoneForTheLossesOfBeforeItWasLost) {
  const auto ring = ring_of(4, 3);
  ring->serve(push_of(3, ones(4), 0.1));
  ring->lose(3);
  ring->take_back(3);
  ring->serve(push_of(1, ones(8), 0.5));
  const at::Tensor best = ring->serve(push_of(4, ones(0), 0.9)).tensors[0];
  EXPECT_TRUE(best.equal(start() - 2)) << "those of 1";
}

TEST(NeighbourCentre, GoesOnFromItsState) {
  at::manual_seed(3);
  const auto one = ring_of(4, 5, 0.5);
  const auto other = ring_of(4, 5, 0.5);
  const auto visit = [](CentreRule& rule, int member, double by) {
    return rule.serve(push_of(member, ones(by), by)).tensors[0];
  };
  for (const int member : {1, 3, 2}) visit(*one, member, member);
  const NamedTensors from = one->state();
  const NamedTensors into = other->state();
  ASSERT_EQ(from.size(), into.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].first, into[i].first);
    into[i].second.copy_(from[i].second);
  }
  for (const int member : {4, 1, 2, 2, 3})
    EXPECT_TRUE(
        visit(*one, member, member).equal(visit(*other, member, member)));
}

TEST(PushMessage, BringsTheRateAndTheLoss) {
  const Push said =
      push_in(message_of(push_of(2, ones(1), 0.75), CentreMessage::push), 2);
  EXPECT_EQ(said.info.rate, 0.25);
  EXPECT_EQ(said.loss, 0.75);
}

}  // namespace sluice::neighbour_centre_test
