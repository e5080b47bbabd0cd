// What rules of centres make of pushes.
#include "lib/replicas/centre_rules.h"

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "tests/lib/replicas/centre/centre_links.h"

namespace sluice::centre_rules_test {

using centre_links::CentreLinks;
using centre_links::finish;
using centre_links::opened;
using centre_links::rest;
using centre_links::rest_of;
using centre_links::start;

UpdateOptions sgd_options() {
  UpdateOptions options;
  options.optimizer.momentum = 0.5;
  return options;
}

// A4: x + centre is kept by each exchange.
TEST(ElasticCentre, KeepsTheSumOfReplicaAndCentre) {
  CentreLinks links = opened(2, elastic_centre({{"w", start()}}, 0.25));
  const at::Tensor mine = start() * 3;
  const at::Tensor pull =
      links[1]->visit({.member = 2, .tensors = {mine}}).tensors[0];
  rest(links);
  const at::Tensor centre = rest_of(links).weights[0];
  EXPECT_TRUE((mine + pull + centre).equal(start() * 4));
  EXPECT_FALSE(centre.equal(start()));
  finish(links);
}

/// How far from 0, where they should come to, replicas on w^2 / 2 are after
/// rounds in which each comes to the centre once.
double far_after_rounds(int members, double rate, double alpha) {
  const at::Tensor one = at::ones({1}, at::kDouble);
  const auto rule = elastic_centre({{"w", one}}, alpha);
  rule->begin({one}, 0);
  std::vector<at::Tensor> mine;
  for (int member = 1; member <= members; ++member)
    mine.push_back(one * (member + 1));
  for (int round = 0; round < 1000; ++round)
    for (int member = 1; member <= members; ++member) {
      at::Tensor& w = by_block(mine, member);
      w = w * (1 - rate) +
          rule->serve({.member = member, .tensors = {w}}).tensors[0];
    }
  return at::stack(mine).abs().max().item<double>();
}

// A4: stable if alpha < (4 - 2 rate) / (4 - rate); of an even number the edge
// is a little further out.
TEST(ElasticCentre, IsStableUpToTheEdgeOfTheFormula) {
  for (const int members : {1, 3})
    for (const double rate : {0.5, 1.0, 1.5}) {
      const double edge = (4 - 2 * rate) / (4 - rate);
      EXPECT_LT(far_after_rounds(members, rate, 0.95 * edge), 1e-3)
          << members << ", " << rate;
      EXPECT_GT(far_after_rounds(members, rate, 1.05 * edge), 1e3)
          << members << ", " << rate;
    }
}

// A14: of one replica the centre goes a T-th of its way, which is one step
// where the gradient is constant.
TEST(MovementCentre, GoesOneUpdateOfSeveralThatAreAlike) {
  constexpr int kUpdates = 5;
  const at::Tensor step = start() + 0.5;
  const auto far = [&](double part, int windows) {
    const auto rule = movement_centre({{"w", start()}}, 1, part);
    rule->begin({start()}, 0);
    at::Tensor mine = start();
    for (int window = 0; window < windows; ++window)
      mine = rule->serve({.member = 1, .tensors = {mine - kUpdates * step}})
                 .tensors[0]
                 .clone();
    return start() - mine;
  };
  for (const int windows : {1, 3}) {
    EXPECT_TRUE(far(1.0 / kUpdates, windows).allclose(windows * step, 1e-12));
    EXPECT_TRUE(far(1, windows).allclose(windows * kUpdates * step, 1e-12));
  }
}

// A10: where no gradient is late, n = 1 is synchronous SGD.
TEST(SoftsyncCentre, SoftsyncOfAllThatAreNeverLateIsSynchronousSgd) {
  constexpr int kMembers = 4;
  const NamedTensors parameters = {{"w", start()}};
  const auto sums = summing_centre(parameters, sgd_options());
  const auto in_time =
      softsync_centre(parameters, sgd_options(), kMembers, kMembers);
  const auto late =
      softsync_centre(parameters, sgd_options(), kMembers, kMembers);
  for (CentreRule* each : {sums.get(), in_time.get(), late.get()})
    each->begin({start()}, 0);
  at::manual_seed(7);
  for (std::int64_t step = 0; step < 4; ++step) {
    std::vector<Push> all;
    for (int member = 1; member <= kMembers; ++member) {
      all.push_back({.member = member,
                     .tensors = {at::randn({4}, at::kDouble)},
                     .info = {.rate = 0.25},
                     .clock = step});
      in_time->serve(all.back());
      Push old = all.back();
      old.clock = 0;
      late->serve(old);
    }
    sums->merge(all);
  }
  const at::Tensor expected = sums->consensus()[0];
  EXPECT_TRUE(in_time->consensus()[0].allclose(expected, 1e-12));
  EXPECT_FALSE(late->consensus()[0].allclose(expected, 1e-2));
}

// A9: with nothing to add each meeting keeps the sum, and brings two together.
TEST(PairCentre, MixesTwoWhenOneIsReady) {
  const PeerGraph ring{.shape = PeerShape::ring, .pairs = true, .seed = 7};
  CentreLinks links = opened(4, pair_centre({{"w", start()}}, 4, ring, true));
  std::vector<at::Tensor> mine(4, start());
  const auto visit = [&](int member, double by) {
    by_block(mine, member) =
        by_block(links, member)
            ->visit(
                {.member = member, .tensors = {by_block(mine, member) + by}})
            .tensors[0];
  };
  visit(3, 8);
  EXPECT_TRUE(mine[2].equal(start() + 8)) << "all were where it began";
  const auto mean = [&] {
    rest(links);
    return rest_of(links).weights[0];
  };
  EXPECT_TRUE(mean().equal(start() + 2));
  const int met = drawn_neighbour(ring, 4, 3, 1);
  visit(3, 0);
  EXPECT_TRUE(mine[2].equal(start() + 4)) << "half the way to a neighbour";
  visit(met, 1);
  EXPECT_FALSE(by_block(mine, met).equal(start() + 1)) << "it was mixed";
  EXPECT_TRUE(mean().equal(start() + 2.25));
  finish(links);
}

// A lost replica is no neighbour of others, and its weights are in no mean;
// when it comes back it begins with that mean.
TEST(PairCentre, LeavesOutWhoIsLostUntilItComesBack) {
  const PeerGraph ring{.shape = PeerShape::ring, .pairs = true, .seed = 7};
  const auto rule = pair_centre({{"w", start()}}, 4, ring, true);
  rule->begin({start()}, 0);
  const auto visit = [&](int member, const at::Tensor& weights) {
    return rule->serve({.member = member, .tensors = {weights}}).tensors[0];
  };
  visit(3, start() + 8);
  EXPECT_TRUE(rule->consensus()[0].equal(start() + 2));
  rule->lose(3);
  EXPECT_TRUE(rule->consensus()[0].equal(start()));
  for (int times = 0; times < 8; ++times)
    for (const int member : {1, 2, 4})
      EXPECT_TRUE(visit(member, start()).equal(start())) << member;
  visit(1, start() + 3);
  rule->take_back(3);
  EXPECT_TRUE(rule->consensus()[0].allclose(start() + 1, 1e-12));
}

}  // namespace sluice::centre_rules_test
