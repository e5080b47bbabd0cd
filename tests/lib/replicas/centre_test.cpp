// The centre of a block, to which replicas come when they are ready.
#include "lib/replicas/centre.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/links_centre.h"
#include "lib/replicas/groups/memory_centre.h"
#include "lib/replicas/replica_policy.h"
#include "lib/replicas/sums.h"

namespace sluice::centre_test {

using testing::Each;
using testing::HasSubstr;

constexpr Deadline kPatience = std::chrono::seconds(60);

using CentreLinks = std::vector<std::unique_ptr<CentreLink>>;

at::Tensor start() {
  return at::arange(4, at::kDouble);
}

void open(CentreLinks& links, std::unique_ptr<CentreRule> rule) {
  links.front()->owned()->own(std::move(rule), {"w"});
  links.front()->owned()->open({start()}, 0);
}

CentreLinks in_memory(int members) {
  return memory_centre(members, kPatience, "block 1");
}

CentreLinks over_links(int members) {
  const auto count = static_cast<std::size_t>(members);
  std::vector<std::vector<Link>> links(count);
  for (auto& list : links) list.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j)
      std::tie(links[i][j], links[j][i]) =
          memory_link(kExchangeCapacity, kExchangeCapacity, kPatience);
  CentreLinks all;
  for (int member = 1; member <= members; ++member)
    all.push_back(links_centre(std::move(by_block(links, member)), member,
                               kPatience, "block 1"));
  return all;
}

void finish(CentreLinks& links) {
  for (auto& link : links) link->finish();
}

using MakeLinks = CentreLinks (*)(int members);

class CentreOver : public testing::TestWithParam<MakeLinks> {};

INSTANTIATE_TEST_SUITE_P(Ways, CentreOver,
                         testing::Values(in_memory, over_links),
                         [](const auto& info) {
                           return info.index == 0 ? "Memory" : "Links";
                         });

// A5: w_T - w_0 is the sum of all pushes, whatever their order.
TEST_P(CentreOver, AddsUpAllThatManyThreadsBring) {
  constexpr int kMembers = 4;
  constexpr int kPushes = 50;
  CentreLinks links = GetParam()(kMembers);
  open(links, movement_centre({{"w", start()}}, kMembers, 1));
  std::vector<std::vector<std::int64_t>> places(kMembers);
  std::vector<at::Tensor> last(kMembers);
  {
    std::vector<std::jthread> threads;
    for (int member = 1; member <= kMembers; ++member)
      threads.emplace_back([&, member] {
        at::Tensor mine = start();
        for (int i = 0; i < kPushes; ++i) {
          const ServerAnswer served =
              by_block(links, member)
                  ->visit({.member = member, .tensors = {mine + member}});
          mine = served.tensors.at(0).clone();
          by_block(places, member).push_back(served.place);
        }
        by_block(last, member) = mine;
        by_block(links, member)->arrive({mine});
        by_block(links, member)->await_rest();
      });
  }
  const CentreAtRest& rest = links.front()->owned()->at_rest();
  EXPECT_TRUE(rest.weights[0].equal(start() + kPushes * (1.0 + 2 + 3 + 4)));
  EXPECT_TRUE(rest.statistics[0].equal(
      mean_in_order({{last[0]}, {last[1]}, {last[2]}, {last[3]}})[0]));
  std::vector<int> served(std::size_t{kMembers} * kPushes, 0);
  for (const auto& list : places) {
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
    for (const std::int64_t place : list)
      ++by_block(served, static_cast<int>(place));
  }
  EXPECT_THAT(served, Each(1)) << "each place is somebody's";
  finish(links);
}

UpdateOptions sgd_options() {
  UpdateOptions options;
  options.optimizer.momentum = 0.5;
  return options;
}

// Gradients that are not there stay so on their way.
TEST_P(CentreOver, StepsByGradientsAndTellsHowLateTheyAre) {
  CentreLinks links = GetParam()(2);
  const NamedTensors parameters = {{"w", start()}, {"frozen", start()}};
  links.front()->owned()->own(gradient_centre(parameters, sgd_options(), 2),
                              {"w", "frozen"});
  links.front()->owned()->open({start(), start()}, 0);
  const auto push = [&](int member, std::int64_t clock) {
    return by_block(links, member)
        ->visit({.member = member,
                 .tensors = {at::ones({4}, at::kDouble), at::Tensor()},
                 .info = {.rate = 0.25},
                 .clock = clock});
  };
  EXPECT_EQ(push(2, 0).place, 1);
  EXPECT_EQ(push(1, 0).place, 2);
  const ServerAnswer third = push(2, 1);
  EXPECT_EQ(third.place, 3);
  EXPECT_EQ(third.rate, 0.25);
  // Velocities 1, 1.5, 1.75.
  EXPECT_TRUE(third.tensors[0].equal(start() - 0.25 * 4.25));
  EXPECT_TRUE(third.tensors[1].equal(start()));
  finish(links);
}

// A10: a step of the mean of c gradients, each divided by max(1, tau).
TEST_P(CentreOver, WaitsForSeveralGradientsWhoeverBringsThem) {
  CentreLinks links = GetParam()(4);
  open(links, softsync_centre({{"w", start()}}, {}, 4, 2));
  const auto push = [&](int member, std::int64_t clock) {
    return by_block(links, member)
        ->visit({.member = member,
                 .tensors = {at::ones({4}, at::kDouble)},
                 .info = {.rate = 0.5},
                 .clock = clock});
  };
  const ServerAnswer first = push(1, 0);
  EXPECT_EQ(first.clock, 0);
  EXPECT_TRUE(first.tensors[0].equal(start())) << "it waits for another";
  const ServerAnswer second = push(1, 0);
  EXPECT_EQ(second.clock, 1);
  EXPECT_TRUE(second.tensors[0].equal(start() - 0.5));
  push(3, 0);
  EXPECT_TRUE(push(4, 0).tensors[0].equal(start() - 1)) << "late by one";
  EXPECT_EQ(push(2, 0).missed, 2);
  const ServerAnswer last = push(1, 1);
  EXPECT_EQ(last.place, 6);
  EXPECT_EQ(last.clock, 3);
  EXPECT_TRUE(last.tensors[0].equal(start() - 1.375));
  finish(links);
}

// A1: a step is by the first N gradients of a turn; later ones are dropped.
TEST_P(CentreOver, MergesTheFirstAndDropsThoseThatComeLater) {
  CentreLinks links = GetParam()(3);
  links.front()->owned()->own(
      summing_centre({{"w", start()}, {"frozen", start()}}, {}),
      {"w", "frozen"}, {.least = 2, .drops_late = true});
  links.front()->owned()->open({start(), start()}, 0);
  const auto bring = [&](int member, std::int64_t batch, double gradient) {
    return by_block(links, member)
        ->bring(
            {.member = member,
             .tensors = {at::full({4}, gradient, at::kDouble), at::Tensor()},
             .info = {.rate = 0.5},
             .batch = batch});
  };
  const auto take = [&](int member) {
    return by_block(links, member)->take(false);
  };
  EXPECT_EQ(bring(3, 0, 1), 1);
  EXPECT_EQ(bring(1, 0, 3), 2);
  EXPECT_EQ(bring(2, 0, 100), 3) << "too late";
  for (const int member : {1, 3}) {
    const MergeResult merged = take(member);
    EXPECT_FALSE(merged.is_late);
    EXPECT_EQ(merged.served.place, 2);
    EXPECT_EQ(merged.served.clock, 1);
    EXPECT_EQ(merged.absent, 0);
    EXPECT_TRUE(merged.served.tensors[0].equal(start() - 0.5 * 2));
    EXPECT_TRUE(merged.served.tensors[1].equal(start()));
  }
  const MergeResult late = take(2);
  EXPECT_TRUE(late.is_late);
  EXPECT_EQ(late.turn, 0);
  EXPECT_EQ(late.absent, 1);
  EXPECT_TRUE(late.served.tensors[0].equal(start() - 0.5 * 2));
  bring(2, 1, 4);
  bring(3, 1, 8);
  EXPECT_FALSE(take(2).is_late);
  EXPECT_TRUE(take(3).served.tensors[0].equal(start() - 0.5 * (2 + 6)));
  finish(links);
}

TEST_P(CentreOver, WaitsForMoreThanAQuorumWhileItsGraceLasts) {
  CentreLinks links = GetParam()(2);
  links.front()->owned()->own(summing_centre({{"w", start()}}, {}), {"w"},
                              {.least = 1, .grace = 0.1});
  links.front()->owned()->open({start()}, 0);
  const auto bring = [&](int member) {
    by_block(links, member)
        ->bring({.member = member,
                 .tensors = {at::ones({4}, at::kDouble) * member},
                 .info = {.rate = 1}});
  };
  const auto before = std::chrono::steady_clock::now();
  bring(2);
  const MergeResult alone = links[1]->take(false);
  EXPECT_GE(std::chrono::steady_clock::now() - before,
            std::chrono::milliseconds(99));
  EXPECT_TRUE(alone.served.tensors[0].equal(start() - 2));
  bring(2);
  bring(1);
  EXPECT_TRUE(links[0]->take(false).served.tensors[0].equal(start() - 3.5));
  EXPECT_TRUE(links[1]->take(false).served.tensors[0].equal(start() - 3.5));
  finish(links);
}

TEST_P(CentreOver, DoesNotWaitForThoseWhoRest) {
  CentreLinks links = GetParam()(2);
  links.front()->owned()->own(summing_centre({{"w", start()}}, {}), {"w"},
                              {.least = 2});
  links.front()->owned()->open({start()}, 0);
  links[0]->arrive({});
  links[1]->bring({.member = 2,
                   .tensors = {at::ones({4}, at::kDouble)},
                   .info = {.rate = 1}});
  EXPECT_TRUE(links[1]->take(false).served.tensors[0].equal(start() - 1));
  links[1]->arrive({});
  links[0]->await_rest();
  links[1]->await_rest();
  finish(links);
}

TEST_P(CentreOver, GoesOnWithoutAReplicaThatIsLostUnderAQuorum) {
  CentreLinks links = GetParam()(3);
  links.front()->owned()->own(summing_centre({{"w", start()}}, {}), {"w"},
                              {.least = 2});
  links.front()->owned()->open({start()}, 0);
  const auto bring = [&](int member) {
    by_block(links, member)
        ->bring({.member = member,
                 .tensors = {at::ones({4}, at::kDouble)},
                 .info = {.rate = 1}});
  };
  bring(1);
  links[2].reset();
  bring(2);
  for (const int member : {1, 2})
    EXPECT_TRUE(by_block(links, member)
                    ->take(false)
                    .served.tensors[0]
                    .equal(start() - 1));
  for (const int member : {1, 2})
    by_block(links, member)->arrive({at::ones({1}) * member});
  links[1]->await_rest();
  links[0]->await_rest();
  const CentreAtRest& rest = links[0]->owned()->at_rest();
  EXPECT_EQ(rest.statistics[0].item<double>(), 1.5) << "the mean of two";
  links[0]->finish();
  links[1]->finish();
}

TEST_P(CentreOver, EndsTheWaitOfOthersWhenAReplicaFails) {
  CentreLinks links = GetParam()(3);
  open(links, elastic_centre({{"w", start()}}, 0.25));
  std::string caught;
  std::jthread waiting([&] {
    links[0]->arrive({});
    try {
      links[0]->await_rest();
    } catch (const PeerGoneError& error) {
      caught = error.what();
    }
  });
  links[2].reset();
  waiting.join();
  EXPECT_THAT(caught, HasSubstr("replica 3 is gone"));
  EXPECT_THAT([&] { links[1]->visit({.member = 2, .tensors = {start()}}); },
              testing::Throws<PeerGoneError>());
  links[1].reset();
  links[0].reset();
}

/// Fails when replica 2 comes.
class FailingRule final : public CentreRule {
 public:
  void begin(const Tensors& /*weights*/, std::int64_t /*clock*/) override {}
  ServerAnswer serve(Push push) override {
    TORCH_CHECK(push.member != 2, "the matrix is singular");
    return {.tensors = std::move(push.tensors)};
  }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }
};

TEST(LinksCentre, TellsAllReplicasWhatWentWrongInServingOne) {
  CentreLinks links = over_links(3);
  open(links, std::make_unique<FailingRule>());
  const auto told = [&](int member) -> std::string {
    try {
      by_block(links, member)->visit({.member = member, .tensors = {start()}});
    } catch (const UserError& error) {
      return error.what();
    }
    return "served";
  };
  EXPECT_EQ(told(3), "served");
  EXPECT_EQ(told(1), "served");
  for (const int member : {2, 3, 1})
    EXPECT_EQ(told(member),
              "block 1: its centre could not serve replica 2: the matrix is "
              "singular");
}

/// Tells of whom each merge was.
class MergesOf final : public CentreRule {
 public:
  explicit MergesOf(std::vector<std::vector<int>>& merges) : merges_(merges) {}
  void begin(const Tensors& /*weights*/, std::int64_t /*clock*/) override {}
  void merge(std::vector<Push> pushes) override {
    merges_.emplace_back();
    for (const Push& push : pushes) merges_.back().push_back(push.member);
  }
  ServerAnswer give(int /*member*/) override { return {}; }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }

 private:
  std::vector<std::vector<int>>& merges_;
};

std::vector<std::vector<int>> merges_with_quorum_of_two(bool loses_second) {
  constexpr Deadline kGraceAndMore = std::chrono::milliseconds(400);
  std::vector<std::vector<int>> merges;
  CentreLinks links = memory_centre(3, std::chrono::seconds(10), "block 1");
  Centre& centre = *links.front()->owned();
  centre.own(std::make_unique<MergesOf>(merges), {"w"},
             {.least = 2, .grace = 0.1});
  centre.open({start()}, 0);
  centre.bring({.member = 1});
  centre.bring({.member = 2});
  if (loses_second) links[1].reset();
  std::thread first([&] { centre.take(1, false); });
  if (loses_second)
    std::this_thread::sleep_for(kGraceAndMore);
  else
    first.join();  // however long a busy machine takes
  centre.bring({.member = 3});
  if (loses_second) centre.take(3, false);
  if (first.joinable()) first.join();
  for (auto& link : links)
    if (link) link->finish();
  return merges;
}

// The grace began when there was a quorum, and then there was none any more.
TEST(CentreOfAQuorum, WaitsForAnotherWhenOneOfTheQuorumIsLost) {
  using Merges = std::vector<std::vector<int>>;
  EXPECT_EQ(merges_with_quorum_of_two(true), (Merges{{1, 3}}));
  EXPECT_EQ(merges_with_quorum_of_two(false), (Merges{{1, 2}}));
}

TEST(CentreOfAQuorum, DealsAgainWhatALostReplicaHadNotBrought) {
  std::vector<std::vector<int>> merges;
  CentreLinks links = memory_centre(3, std::chrono::seconds(10), "block 1");
  Centre& centre = *links.front()->owned();
  centre.own(std::make_unique<MergesOf>(merges), {"w"}, {.least = 2});
  centre.open({start()}, 0);
  EXPECT_EQ(links[1]->deal(0, 6), 0);
  centre.bring({.member = 2});
  EXPECT_EQ(links[1]->deal(0, 6), 1);
  EXPECT_EQ(links[0]->deal(0, 6), 2);
  links[1].reset();
  EXPECT_EQ(links[2]->deal(0, 6), 1) << "0 has been brought";
  EXPECT_EQ(links[2]->deal(0, 6), 3) << "and 1 dealt again, once";
  for (auto& link : links)
    if (link) link->finish();
}

class MeanOf final : public ReplicaPolicy {
 public:
  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    return std::move(mixture.mean);
  }
};

/// The centre's weights after a replica, which was lost before the others moved
/// them by 4, has begun with them and moved by 1.
at::Tensor after_the_return(bool is_known) {
  auto rule = averaging_centre({{"w", start()}}, 3, std::make_unique<MeanOf>());
  rule->begin({start()}, 0);
  std::vector<Push> others;
  others.push_back({.member = 1, .tensors = {start() + 4}});
  others.push_back({.member = 2, .tensors = {start() + 4}});
  rule->merge(std::move(others));
  Centre centre(3, kPatience, "block 1");
  centre.own(std::move(rule), {"w"}, {.least = 1});
  if (is_known) centre.rejoin(3);
  centre.open({}, 0);
  centre.bring({.member = 3, .tensors = {start() + 5}});
  return centre.take(3, false).served.tensors.at(0);
}

TEST(CentreOfAQuorum, CountsNothingTwiceOfAReplicaThatComesBack) {
  EXPECT_TRUE(after_the_return(true).equal(start() + 5));
  EXPECT_TRUE(after_the_return(false).equal(start() + 9));
}

// A4: x + centre is kept by each exchange.
TEST(ElasticCentre, KeepsTheSumOfReplicaAndCentre) {
  CentreLinks links = in_memory(2);
  open(links, elastic_centre({{"w", start()}}, 0.25));
  const at::Tensor mine = start() * 3;
  const at::Tensor pull =
      links[1]->visit({.member = 2, .tensors = {mine}}).tensors[0];
  for (int member : {1, 2}) by_block(links, member)->arrive({});
  const at::Tensor centre = links[0]->owned()->at_rest().weights[0];
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
  CentreLinks links = in_memory(4);
  const PeerGraph ring{.shape = PeerShape::ring, .pairs = true, .seed = 7};
  open(links, pair_centre({{"w", start()}}, 4, ring, true));
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
    for (int member = 1; member <= 4; ++member)
      by_block(links, member)->arrive({});
    return links[0]->owned()->at_rest().weights[0].clone();
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

TEST(CentreState, IsThatOfTheLastRestAndGoesOn) {
  CentreLinks links = in_memory(2);
  open(links, movement_centre({{"w", start()}}, 2, 1));
  links[1]->visit({.member = 2, .tensors = {start() + 1}});
  for (int member : {1, 2}) by_block(links, member)->arrive({});
  const NamedTensors saved = links[0]->owned()->state();
  links[1]->visit({.member = 2, .tensors = {start() + 9}});
  EXPECT_TRUE(links[0]->owned()->state().at(0).second.equal(start() + 1));

  CentreLinks again = in_memory(2);
  again[0]->owned()->own(movement_centre({{"w", start()}}, 2, 1), {"w"});
  const NamedTensors into = again[0]->owned()->state();
  ASSERT_EQ(into.size(), saved.size());
  for (std::size_t i = 0; i < into.size(); ++i) {
    EXPECT_EQ(into[i].first, saved[i].first);
    into[i].second.copy_(saved[i].second);
  }
  again[0]->owned()->open({}, 0);
  const ServerAnswer next =
      again[0]->visit({.member = 1, .tensors = {start() + 2}});
  EXPECT_EQ(next.place, 2);
  EXPECT_TRUE(next.tensors[0].equal(start() + 3));
  finish(links);
  finish(again);
}

}  // namespace sluice::centre_test
