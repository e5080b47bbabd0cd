// What pairs of replicas make of their weights over their own links, and what
// all of them agree on.
#include "lib/replicas/partners.h"

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/centre/centre_ways.h"
#include "tests/lib/replicas/centre/centre_links.h"

namespace sluice::partners_test {

using centre_links::kPatience;
using testing::HasSubstr;
using testing::ThrowsMessage;

NamedTensors weight(double value) {
  return {{"w", at::full({2}, value, at::kDouble)}};
}

/// The ways of four replicas on a ring, of which 2 and 4 are hosts, and what
/// each keeps.
struct Ring {
  explicit Ring(bool before, const NamedTensors& parameters = weight(1)) {
    std::vector<CentreWays::Links> links(4);
    for (const int host : {2, 4}) {
      auto to_host =
          links_to_centre({.members = 4,
                           .name = "block 1",
                           .is_of_several = true,
                           .outside = {6 - host},
                           .make =
                               [host](const NamedTensors& trained) {
                                 return partner_centre(trained, host);
                               }},
                          1, kPatience);
      for (int member = 1; member <= 4; ++member)
        if (auto& link = by_block(to_host, member))
          by_block(links, member)[host] = std::move(link);
    }
    for (int member = 1; member <= 4; ++member) {
      ways.push_back(
          std::make_unique<CentreWays>(std::move(by_block(links, member))));
      policies.push_back(partner_policy(parameters, member % 2 == 0, before));
      weights.push_back(at::full({2}, 1.0, at::kDouble));
      by_block(policies, member)->begin(values_of(parameters));
      if (CentreLink* const own = by_block(ways, member)->own())
        own->open({.parameters = parameters});
    }
  }

  /// The replica moves, and comes to that one.
  void visit(int member, int host, double update) {
    at::Tensor& mine = by_block(weights, member);
    ReplicaPolicy& policy = *by_block(policies, member);
    mine = mine + update;
    const ServerAnswer answer =
        by_block(ways, member)
            ->beside(host)
            .visit({.member = member, .tensors = policy.offer({mine})});
    mine = policy.combine({mine}, {.mean = answer.tensors}).at(0);
  }

  /// All come to rest, each with its number as its statistics.
  void rest() {
    for (int member = 1; member <= 4; ++member)
      by_block(ways, member)
          ->arrive(by_block(policies, member)->agreed({}),
                   {at::full({1}, member, at::kDouble)});
    for (const auto& way : ways) way->await_rest();
  }

  void finish() {
    for (const auto& way : ways) way->finish();
  }

  double at(int member) const {
    return by_block(weights, member)[0].item<double>();
  }
  double agreed() const {
    return ways.front()->agreed()->weights.at(0)[0].item<double>();
  }

  std::vector<std::unique_ptr<CentreWays>> ways;  // by replica
  std::vector<std::shared_ptr<ReplicaPolicy>> policies;
  Tensors weights;
};

TEST(Partners, TakeTheMeanAndTheVisitorAddsItsUpdate) {
  Ring ring(true);
  ring.visit(2, 2, 4);  // 1 + 4
  EXPECT_EQ(ring.at(2), 5);
  ring.visit(1, 2, 8);  // the mean of 1 and 5, and 8
  EXPECT_EQ(ring.at(1), 11);
  ring.visit(2, 2, 0);  // what replica 1 has made of its weights
  EXPECT_EQ(ring.at(2), 3);
  ring.finish();
}

TEST(Partners, TakeTheMeanOfWhatUpdatesHaveMadeWithMixAfter) {
  Ring ring(false);
  ring.visit(2, 2, 4);
  ring.visit(1, 2, 8);  // the mean of 9 and 5
  EXPECT_EQ(ring.at(1), 7);
  ring.visit(2, 2, 1);
  EXPECT_EQ(ring.at(2), 8);
  ring.finish();
}

TEST(Partners, KeepTheSumOfAllWeightsButForTheUpdates) {
  for (const bool before : {true, false}) {
    Ring ring(before);
    double moved = 4;  // four weights of 1
    const std::vector<std::pair<int, int>> visits = {
        {1, 2}, {3, 4}, {2, 2}, {3, 2}, {1, 4}, {4, 4}, {3, 4}, {2, 2}};
    for (const auto& [member, host] : visits) {
      ring.visit(member, host, member + 0.5);
      moved += member + 0.5;
    }
    ring.rest();
    EXPECT_DOUBLE_EQ(ring.agreed() * 4, moved) << before;
    EXPECT_NE(ring.at(1), ring.at(3));
    ring.finish();
  }
}

TEST(Partners, AgreeOnTheMeansOfWhatEachHasSinceItsLastVisit) {
  Ring ring(true);
  ring.visit(3, 4, 8);  // 9 of replica 3, and 1 of 4
  ring.rest();
  EXPECT_EQ(ring.agreed(), (1 + 1 + 9 + 1) / 4.0);
  EXPECT_EQ(ring.ways[0]->agreed()->statistics.at(0).item<double>(),
            (1 + 2 + 3 + 4) / 4.0);
  for (int member = 2; member <= 4; ++member)
    EXPECT_FALSE(by_block(ring.ways, member)->agreed()) << member;
  // What a checkpoint of replica 4 has of its centre.
  EXPECT_EQ(ring.ways[3]->own()->at_rest()->state.front().first, "own.w");
  EXPECT_EQ(ring.ways[2]->own(), nullptr);
  ring.finish();
}

TEST(Partners, AgreeOnTheStatisticsOfABlockThatTrainsNothing) {
  Ring ring(true, {});
  ring.rest();
  EXPECT_TRUE(ring.ways[0]->agreed()->weights.empty());
  EXPECT_EQ(ring.ways[0]->agreed()->statistics.at(0).item<double>(), 2.5);
  ring.finish();
}

TEST(Partners, EndWhenOneOfThemIsGone) {
  for (const int gone : {1, 4}) {
    Ring ring(true);
    by_block(ring.ways, gone).reset();
    const auto goes_on = [&] {
      for (int visit = 0; visit < 1000; ++visit) ring.visit(3, 4, 1);
    };
    EXPECT_THAT(goes_on, ThrowsMessage<PeerGoneError>(HasSubstr(
                             fmt::format("replica {} is gone", gone))));
  }
}

}  // namespace sluice::partners_test
