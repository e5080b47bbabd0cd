// A centre at work in a thread of its own, and what replicas bring to it.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/replicas/centre/centre_link.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"
#include "lib/tensors/sums.h"
#include "tests/lib/replicas/centre/centre_links.h"

namespace sluice::centre_at_work_test {

using centre_links::CentreLinks;
using centre_links::closed;
using centre_links::finish;
using centre_links::kPatience;
using centre_links::opened;
using centre_links::rest;
using centre_links::rest_of;
using centre_links::setup_of;
using centre_links::start;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

// A5: w_T - w_0 is the sum of all pushes, whatever their order.
TEST(CentreAtWork, AddsUpAllThatManyThreadsBring) {
  constexpr int kMembers = 4;
  constexpr int kPushes = 50;
  CentreLinks links =
      opened(kMembers, movement_centre({{"w", start()}}, kMembers, 1));
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
  const CentreAtRest& rest = rest_of(links);
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
TEST(CentreAtWork, StepsByGradientsAndTellsHowLateTheyAre) {
  const NamedTensors parameters = {{"w", start()}, {"frozen", start()}};
  CentreLinks links = closed(2, gradient_centre(parameters, sgd_options(), 2));
  links.front()->open({.parameters = parameters});
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
TEST(CentreAtWork, WaitsForSeveralGradientsWhoeverBringsThem) {
  CentreLinks links = opened(4, softsync_centre({{"w", start()}}, {}, 4, 2));
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
TEST(CentreAtWork, MergesTheFirstAndDropsThoseThatComeLater) {
  const NamedTensors parameters = {{"w", start()}, {"frozen", start()}};
  CentreLinks links = closed(3, summing_centre(parameters, {}),
                             {.least = 2, .drops_late = true});
  links.front()->open({.parameters = parameters});
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

TEST(CentreAtWork, WaitsForMoreThanAQuorumWhileItsGraceLasts) {
  CentreLinks links = opened(2, summing_centre({{"w", start()}}, {}),
                             {.least = 1, .grace = 0.1});
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

TEST(CentreAtWork, DoesNotWaitForThoseWhoRest) {
  CentreLinks links =
      opened(2, summing_centre({{"w", start()}}, {}), {.least = 2});
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

TEST(CentreAtWork, GoesOnWithoutAReplicaThatIsLostUnderAQuorum) {
  CentreLinks links =
      opened(3, summing_centre({{"w", start()}}, {}), {.least = 2});
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
  EXPECT_EQ(rest_of(links).statistics[0].item<double>(), 1.5)
      << "the mean of two";
  links[0]->finish();
  links[1]->finish();
}

TEST(CentreAtWork, EndsTheWaitOfOthersWhenAReplicaFails) {
  CentreLinks links =
      opened(3, summing_centre({{"w", start()}}, {}), {.least = 3});
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
  EXPECT_THAT([&] { links[1]->bring({.member = 2, .tensors = {start()}}); },
              testing::Throws<PeerGoneError>());
  links[1].reset();
  links[0].reset();
}

// No replica waits for another: what it hadn't brought is all that is lost.
TEST(CentreAtWork, GoesOnWithoutALostReplicaWhereEachIsServedByItself) {
  CentreLinks links = opened(3, movement_centre({{"w", start()}}, 3, 1));
  links[2]->visit({.member = 3, .tensors = {start() + 1}});
  links[2].reset();
  links[1]->visit({.member = 2, .tensors = {start() + 2}});
  for (int member : {1, 2})
    by_block(links, member)->arrive({at::ones({1}) * member});
  for (int member : {1, 2}) by_block(links, member)->await_rest();
  EXPECT_TRUE(rest_of(links).weights[0].equal(start() + 3));
  EXPECT_EQ(rest_of(links).statistics[0].item<double>(), 1.5);
  links[0]->finish();
  links[1]->finish();
}

/// A centre that two of three replicas come to, and the link to the host of the
/// first.
struct HalfFullCentre {
  explicit HalfFullCentre(std::unique_ptr<CentreRule> rule,
                          const Quorum& quorum = {}) {
    std::vector<Link> of_centre(3);
    std::vector<Link> ends(2);
    for (std::size_t r = 0; r < ends.size(); ++r)
      std::tie(ends[r], of_centre[r]) =
          memory_link(kCentreCapacity, kCentreCapacity, kPatience);
    const auto host = std::make_shared<CentreHost>(
        setup_of(3, std::move(rule), quorum), std::move(of_centre), 1);
    for (int member : {1, 2})
      links.push_back(std::make_unique<CentreLink>(
          std::move(by_block(ends, member)), member, 3, "block 1",
          member == 1 ? host : nullptr));
    links.front()->open({.parameters = {{"w", start()}}});
  }
  std::unique_ptr<CentreLink> admit_third() {
    auto [mine, its] = memory_link(kCentreCapacity, kCentreCapacity, kPatience);
    links.front()->admit(3, ++lives, std::move(its));
    return std::make_unique<CentreLink>(std::move(mine), 3, 3, "block 1");
  }
  CentreLinks links;
  std::int64_t lives = 0;
};

TEST(CentreAtWork, GivesItsWeightsAndStatisticsToAReplicaThatJoins) {
  HalfFullCentre centre(movement_centre({{"w", start()}}, 3, 1));
  CentreLinks& links = centre.links;
  for (int member : {1, 2})
    by_block(links, member)->arrive({at::ones({1}) * member});
  for (int member : {1, 2}) by_block(links, member)->await_rest();
  links[1]->visit({.member = 2, .tensors = {start() + 2}});
  links.push_back(centre.admit_third());
  const CentreEntry entry = links[2]->enter();
  EXPECT_TRUE(entry.served.tensors.at(0).equal(start() + 2));
  EXPECT_EQ(entry.served.place, 2) << "behind the push of the second replica";
  EXPECT_EQ(entry.statistics.at(0).item<double>(), 1.5);
  links[2]->visit({.member = 3, .tensors = {start() + 5}});
  rest(links);
  EXPECT_TRUE(rest_of(links).weights[0].equal(start() + 5))
      << "its movement alone has been added";
  finish(links);
}

// The next rest, and the next merge, are of all three.
TEST(CentreAtWork, WaitsForAReplicaFromItsEntryOn) {
  HalfFullCentre centre(summing_centre({{"w", start()}}, {}), {.least = 2});
  CentreLinks& links = centre.links;
  links.push_back(centre.admit_third());
  links[2]->enter();
  links[0]->arrive({});
  links[1]->arrive({});
  std::atomic<bool> rests = false;
  std::jthread waiting([&] {
    links[0]->await_rest();
    rests = true;
  });
  links[2]->bring({.member = 3, .tensors = {start()}});
  EXPECT_FALSE(links[2]->take(false).is_late) << "the others bring no more";
  EXPECT_FALSE(rests);
  links[2]->arrive({});
  waiting.join();
  links[1]->await_rest();
  links[2]->await_rest();
  finish(links);
}

TEST(CentreAtWork, HasThePlaceOfALostReplicaForAnother) {
  HalfFullCentre centre(movement_centre({{"w", start()}}, 3, 1));
  CentreLinks& links = centre.links;
  for (int times = 0; times < 3; ++times) {
    std::unique_ptr<CentreLink> third = centre.admit_third();
    third->enter();
    third->visit({.member = 3, .tensors = {start() + times}});
    third.reset();
    for (int member : {1, 2}) by_block(links, member)->arrive({});
    for (int member : {1, 2}) by_block(links, member)->await_rest();
  }
  EXPECT_TRUE(rest_of(links).weights[0].equal(start() + 2))
      << "the movements of all three have been added";
  finish(links);
}

// What is said of its loss may overtake what is said of its coming.
TEST(CentreAtWork, LeavesOutWhoIsLostBeforeItHasCome) {
  HalfFullCentre centre(movement_centre({{"w", start()}}, 3, 1));
  CentreLinks& links = centre.links;
  links.front()->host().lock()->lose(3, 1);
  const std::unique_ptr<CentreLink> third = centre.admit_third();
  for (int member : {1, 2}) by_block(links, member)->arrive({});
  for (int member : {1, 2}) by_block(links, member)->await_rest();
  const std::unique_ptr<CentreLink> next = centre.admit_third();
  EXPECT_EQ(next->enter().served.place, 1) << "the one before never came";
  next->finish();
  finish(links);
}

/// Says that it serves, and waits until it may.
class WaitingRule final : public CentreRule {
 public:
  WaitingRule(std::latch& serves, std::latch& may)
      : serves_(serves), may_(may) {}
  void begin(const Tensors& /*weights*/, std::int64_t /*clock*/) override {}
  ServerAnswer serve(Push push) override {
    serves_.count_down();
    may_.wait();
    return {.tensors = std::move(push.tensors)};
  }
  ServerAnswer take_back(int /*member*/) override { return {}; }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }

 private:
  std::latch& serves_;
  std::latch& may_;
};

/// Three replicas, of which `busy` is served while another comes to its rest
/// and is lost; so does the third come before that, where it isn't `busy`.
void lose_while_served(int busy, int lost) {
  std::latch serves(1);
  std::latch may(1);
  CentreLinks links = opened(3, std::make_unique<WaitingRule>(serves, may));
  std::jthread visit([&links, busy] {
    by_block(links, busy)->visit({.member = busy, .tensors = {start()}});
  });
  serves.wait();
  const auto arrive = [&](int member) {
    by_block(links, member)->arrive({at::ones({1}) * (3 << (2 * member))});
  };
  const int other = 5 - lost;
  if (busy != other) arrive(other);
  arrive(lost);
  links.front()->host().lock()->lose(lost);
  may.count_down();
  visit.join();
  arrive(1);
  if (busy == other) arrive(other);
  for (int member : {1, other}) by_block(links, member)->await_rest();
  EXPECT_EQ(rest_of(links).statistics[0].item<double>(), 84);
  EXPECT_TRUE(rest_of(links).losses.at(0).rests);
  for (int member : {1, other}) by_block(links, member)->finish();
}

// The centre's next look is at what the replica said, at what is said of its
// loss, or, where replica 1 was served, at what another said.
TEST(CentreAtWork, HearsWhatAReplicaSaidBeforeItWasLost) {
  for (const auto& [busy, lost] :
       {std::pair(3, 2), std::pair(2, 3), std::pair(1, 3), std::pair(1, 2)}) {
    SCOPED_TRACE(busy * 10 + lost);
    lose_while_served(busy, lost);
  }
}

/// Fails when replica 2 comes.
class FailingRule final : public CentreRule {
 public:
  void begin(const Tensors& /*weights*/, std::int64_t /*clock*/) override {}
  ServerAnswer serve(Push push) override {
    TORCH_CHECK(push.member != 2, "the matrix is singular");
    return {.tensors = std::move(push.tensors)};
  }
  ServerAnswer take_back(int /*member*/) override { return {}; }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }
};

TEST(CentreAtWork, TellsAllReplicasWhatWentWrongInServingOne) {
  CentreLinks links = opened(3, std::make_unique<FailingRule>());
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
  ServerAnswer take_back(int /*member*/) override { return {}; }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }

 private:
  std::vector<std::vector<int>>& merges_;
};

std::vector<std::vector<int>> merges_with_quorum_of_two(bool loses_second) {
  constexpr Deadline kGraceAndMore = std::chrono::milliseconds(400);
  std::vector<std::vector<int>> merges;
  CentreLinks links =
      opened(3, std::make_unique<MergesOf>(merges), {.least = 2, .grace = 0.1});
  links[0]->bring({.member = 1});
  links[1]->bring({.member = 2});
  if (loses_second) links[1].reset();
  std::thread first([&] { links[0]->take(false); });
  if (loses_second)
    std::this_thread::sleep_for(kGraceAndMore);
  else
    first.join();  // however long a busy machine takes
  links[2]->bring({.member = 3});
  if (loses_second) links[2]->take(false);
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

TEST(CentreOfAQuorum, DealsAgainWhatOfALostReplicaWasNotMerged) {
  std::vector<std::vector<int>> merges;
  CentreLinks links =
      opened(3, std::make_unique<MergesOf>(merges), {.least = 2});
  EXPECT_EQ(links[0]->deal(0, 9), 0);
  EXPECT_EQ(links[1]->deal(0, 9), 1);
  links[0]->bring({.member = 1, .batch = 0});
  links[1]->bring({.member = 2, .batch = 1});
  links[1]->take(false);
  EXPECT_EQ(links[1]->deal(0, 9), 2);
  EXPECT_EQ(links[1]->deal(0, 9), 3);
  links[1]->bring({.member = 2, .batch = 2});
  links[1].reset();
  std::vector<std::int64_t> dealt;
  for (int i = 0; i < 4; ++i) {
    dealt.push_back(links[2]->deal(0, 9).value());
    links[2]->bring({.member = 3, .batch = dealt.back()});
    links[0]->bring({.member = 1, .batch = 0});
    links[2]->take(false);
    links[0]->take(false);
  }
  // The centre sees a loss when a link ends.
  EXPECT_THAT(dealt, IsSupersetOf({2, 3})) << "1 was merged";
  EXPECT_THAT(dealt, Not(Contains(1)));
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
  const auto rule = [] {
    return averaging_centre({{"w", start()}}, 3, std::make_unique<MeanOf>());
  };
  CentreLinks before = opened(3, rule(), {.least = 2});
  for (int member : {1, 2}) {
    by_block(before, member)
        ->bring({.member = member, .tensors = {start() + 4}});
  }
  for (int member : {1, 2}) by_block(before, member)->take(false);
  rest(before);
  CentreLinks links = closed(3, rule(), {.least = 1});
  links[0]->open({.parameters = {{"w", start()}},
                  .state = rest_of(before).state,
                  .returning = is_known ? std::vector{3} : std::vector<int>()});
  links[2]->bring({.member = 3, .tensors = {start() + 5}});
  const at::Tensor after = links[2]->take(false).served.tensors.at(0);
  finish(before);
  finish(links);
  return after;
}

TEST(CentreOfAQuorum, CountsNothingTwiceOfAReplicaThatComesBack) {
  EXPECT_TRUE(after_the_return(true).equal(start() + 5));
  EXPECT_TRUE(after_the_return(false).equal(start() + 9));
}

}  // namespace sluice::centre_at_work_test
