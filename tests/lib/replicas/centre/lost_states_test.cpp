// A replica is lost in each state of what it has to do with a centre, for each
// rule of a centre: the others go on, or end with its name. Each batch is taken
// once, and another that comes to its place begins with the centre's weights.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/replicas/centre/centre.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"

namespace sluice::lost_states_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

constexpr int kMembers = 4;
constexpr int kLast = kMembers;
constexpr std::int64_t kBatches = 12;  // of a grant

at::Tensor start() {
  return at::arange(4, at::kDouble);
}

class MeanOfAll final : public ReplicaPolicy {
 public:
  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    return std::move(mixture.mean);
  }
};

struct Policy {
  const char* name = "";
  std::function<std::unique_ptr<CentreRule>(const NamedTensors&)> make;
  Quorum quorum = {};
  bool pushes_gradients = false;
  /// The weights after so many pushes, whoever made them; nothing: they depend
  /// on that.
  std::function<double(std::int64_t)> moved = nullptr;
};

const std::vector<Policy>& policies() {
  static const std::vector<Policy> all = {
      {.name = "Server",
       .make =
           [](const NamedTensors& parameters) {
             return gradient_centre(parameters, {}, kMembers);
           },
       .pushes_gradients = true,
       .moved =
           [](std::int64_t pushes) {
             return -0.25 * static_cast<double>(pushes);
           }},
      {.name = "Softsync",
       .make =
           [](const NamedTensors& parameters) {
             return softsync_centre(parameters, {}, kMembers, 2);
           },
       .pushes_gradients = true},
      {.name = "Movement",
       .make =
           [](const NamedTensors& parameters) {
             return movement_centre(parameters, kMembers, 1);
           },
       .moved =
           [](std::int64_t pushes) { return static_cast<double>(pushes); }},
      {.name = "Elastic",
       .make =
           [](const NamedTensors& parameters) {
             return elastic_centre(parameters, 0.25);
           }},
      {.name = "Pairs",
       .make =
           [](const NamedTensors& parameters) {
             const PeerGraph ring{
                 .shape = PeerShape::ring, .pairs = true, .seed = 7};
             return pair_centre(parameters, kMembers, ring, true);
           }},
      {.name = "Neighbours",
       .make =
           [](const NamedTensors& parameters) {
             return neighbour_centre(parameters, {}, kMembers,
                                     {.shape = PeerShape::ring}, 3);
           },
       .pushes_gradients = true},
      {.name = "Quorum",
       .make =
           [](const NamedTensors& parameters) {
             return averaging_centre(parameters, kMembers,
                                     std::make_unique<MeanOfAll>());
           },
       .quorum = {.least = 2}},
      {.name = "All",
       .make =
           [](const NamedTensors& parameters) {
             return averaging_centre(parameters, kMembers,
                                     std::make_unique<MeanOfAll>());
           },
       .quorum = {.least = kMembers}},
  };
  return all;
}

/// State of a replica towards its centre.
enum class State {
  before_opening,  ///< the centre isn't open
  idle,            ///< it has nothing under way
  dealt,           ///< it computes
  dealt_twice,     ///< with two batches under way
  early,           ///< it has sent a push, and the centre isn't open
  served,          ///< its push is served, or brought to a quorum
  waiting,         ///< it waits for a merge
  merged,          ///< which has been made, and it hasn't seen that
  resting,         ///< it waits for others, before a checkpoint
  rested,          ///< the rest is over
};

struct Case {
  const Policy* policy = nullptr;
  State state = State::idle;
};

const std::map<State, const char*> kNames = {
    {State::before_opening, "BeforeOpening"},
    {State::idle, "Idle"},
    {State::dealt, "Dealt"},
    {State::dealt_twice, "DealtTwice"},
    {State::early, "Early"},
    {State::served, "Served"},
    {State::waiting, "Waiting"},
    {State::merged, "Merged"},
    {State::resting, "Resting"},
    {State::rested, "Rested"}};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Policy& policy : policies())
    for (const auto& [state, name] : kNames) {
      const bool is_of_quorum =
          state == State::waiting || state == State::merged;
      if (!is_of_quorum || policy.quorum.is_there())
        all.push_back({&policy, state});
    }
  return all;
}

/// Notes what a rule of a centre does.
class NotedRule final : public CentreRule {
 public:
  struct Notes {
    std::vector<std::int64_t> taken = {};  ///< batches
    std::vector<std::string> lives = {};
    std::set<int> away = {};
    std::string wrong = {};
  };
  NotedRule(std::unique_ptr<CentreRule> rule, Notes& notes)
      : rule_(std::move(rule)), notes_(notes) {}

  void begin(const Tensors& weights, std::int64_t clock) override {
    rule_->begin(weights, clock);
  }
  ServerAnswer serve(Push push) override {
    take(push);
    return rule_->serve(std::move(push));
  }
  void merge(std::vector<Push> pushes) override {
    for (const Push& push : pushes) take(push);
    rule_->merge(std::move(pushes));
  }
  ServerAnswer give(int member) override { return rule_->give(member); }
  void lose(int member) override {
    notes_.lives.push_back(fmt::format("{} is lost", member));
    notes_.away.insert(member);
    rule_->lose(member);
  }
  ServerAnswer take_back(int member) override {
    notes_.lives.push_back(fmt::format("{} enters", member));
    notes_.away.erase(member);
    return rule_->take_back(member);
  }
  Tensors consensus() const override { return rule_->consensus(); }
  NamedTensors state() const override { return rule_->state(); }

 private:
  void take(const Push& push) {
    if (notes_.away.contains(push.member))
      notes_.wrong = fmt::format("replica {} isn't there", push.member);
    notes_.taken.push_back(push.batch);
  }

  const std::unique_ptr<CentreRule> rule_;
  Notes& notes_;
};

/// A centre, and replicas that come to it one step at a time.
class Meetings {
 public:
  explicit Meetings(const Policy& policy) : policy_(policy) {}

  void open() {
    centre_.hear(1, message_of(CentreOpening{.parameters = {{"w", start()}}}));
  }
  void deal(int member) {
    hear(member, message_of(DealRequest{.first = first_, .end = end_}));
  }
  void push(int member) {
    const std::int64_t batch = held_[member].front();
    const at::Tensor mine = policy_.pushes_gradients
                                ? at::ones({4}, at::kDouble)
                                : weights_[member] + 1;
    hear(member, message_of(Push{.member = member,
                                 .tensors = {mine},
                                 .info = {.rate = 0.25},
                                 .batch = batch},
                            policy_.quorum.is_there() ? CentreMessage::bring
                                                      : CentreMessage::push));
  }
  void take(int member) { hear(member, message_of(0, CentreMessage::take)); }
  void arrive(int member) { hear(member, message_of_arrival({})); }

  void leave(int member) {
    gone_.insert(member);
    waits_.erase(member);
    takes_.erase(member);
    held_[member].clear();
    centre_.leave(member);
  }
  void enter(int member) {
    centre_.admit(member);
    gone_.erase(member);
    hear(member, message_for(CentreMessage::entry));
  }

  /// All that are there train until the grant is dealt, and come to a rest; of
  /// those that may.
  void train(const std::set<int>& may_rest = {1, 2, 3, 4}) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (int member = 1; member <= kMembers; ++member)
        goes_on = step(member, may_rest.contains(member)) || goes_on;
    }
  }
  void next_grant() {
    first_ = end_;
    end_ += kBatches;
    is_dealt_.clear();
    rested_.clear();
  }

  /// Replicas that have come to the rest of the grant.
  const std::set<int>& rested() const { return rested_; }
  /// Replicas that wait for an answer.
  const std::set<int>& waiting() const { return waits_; }
  const NotedRule::Notes& notes() const { return notes_; }
  const std::map<int, std::string>& failures() const { return failures_; }
  /// What the replica begins with next.
  at::Tensor weights(int member) { return weights_[member]; }
  /// What all agreed on at the last rest.
  at::Tensor agreed() const { return agreed_; }
  /// What the centre said of losses at that rest.
  const std::vector<CentreLoss>& losses() const { return losses_; }

 private:
  /// The next thing that the replica does; false: it has nothing to do.
  bool step(int member, bool may_rest) {
    const bool is_away = gone_.contains(member) || rested_.contains(member) ||
                         failures_.contains(member);
    if (is_away || waits_.contains(member)) return false;
    if (takes_.contains(member))
      take(member);
    else if (!held_[member].empty())
      push(member);
    else if (!is_dealt_.contains(member))
      deal(member);
    else if (may_rest)
      arrive(member);
    else
      return false;
    return true;
  }

  void hear(int member, const Message& message) {
    waits_.insert(member);
    centre_.hear(member, message);
  }

  void answered(int member, const Message& message) {
    waits_.erase(member);
    if (gone_.contains(member)) return;
    switch (said_in(message)) {
      case CentreMessage::failure:
        failures_[member] = failure_in(message).text;
        break;
      case CentreMessage::deal:
        if (const auto batch = dealt_in(message))
          held_[member].push_back(*batch);
        else
          is_dealt_.insert(member);
        break;
      case CentreMessage::bring:
        takes_.insert(member);
        break;
      case CentreMessage::push:
        took(member, served_in(message).tensors.front());
        break;
      case CentreMessage::take:
        takes_.erase(member);
        took(member, merged_in(message).served.tensors.front());
        break;
      case CentreMessage::entry:
        weights_[member] = entry_in(message).served.tensors.front().clone();
        break;
      default:
        rested_.insert(member);
        if (const auto rest = rest_in(message)) {
          agreed_ = rest->weights.front().clone();
          losses_ = rest->losses;
        }
    }
  }

  /// An elastic centre gives how far to go, all others where to.
  void took(int member, const at::Tensor& taken) {
    held_[member].erase(held_[member].begin());
    weights_[member] = std::string(policy_.name) == "Elastic"
                           ? weights_[member] + 1 + taken
                           : taken.clone();
  }

  const Policy& policy_;
  NotedRule::Notes notes_;
  std::int64_t first_ = 0;
  std::int64_t end_ = kBatches;
  std::map<int, std::vector<std::int64_t>> held_;  // batches, by replica
  std::map<int, at::Tensor> weights_ = {
      {1, start()}, {2, start()}, {3, start()}, {4, start()}};
  std::set<int> gone_;
  std::set<int> waits_;     // for an answer
  std::set<int> takes_;     // have brought something
  std::set<int> is_dealt_;  // know that the grant is dealt
  std::set<int> rested_;
  std::map<int, std::string> failures_;
  at::Tensor agreed_;
  std::vector<CentreLoss> losses_;
  Centre centre_{{.members = kMembers,
                  .name = "block 1",
                  .quorum = policy_.quorum,
                  .make =
                      [this](const NamedTensors& parameters) {
                        return std::make_unique<NotedRule>(
                            policy_.make(parameters), notes_);
                      }},
                 [this](int member, const Message& message) {
                   answered(member, message);
                 }};
};

/// Brings the replica into the state.
void bring_into(State state, int member, Meetings& meetings) {
  std::set<int> others = {1, 2, 3, 4};
  others.erase(member);
  if (state == State::before_opening) return;
  if (state != State::early) meetings.open();
  if (state == State::resting) return meetings.train({member});
  if (state == State::rested) return meetings.train();
  if (state == State::idle) return;
  meetings.deal(member);
  if (state == State::dealt) return;
  if (state == State::dealt_twice) return meetings.deal(member);
  meetings.push(member);
  if (state == State::waiting) meetings.take(member);
  if (state != State::merged) return;
  for (const int other : others) {
    meetings.deal(other);
    meetings.push(other);
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.policy->name) + kNames.at(info.param.state);
}

std::vector<std::int64_t> batches_of(std::int64_t grants) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(grants * kBatches));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class ReplicaLostInEachState : public testing::TestWithParam<Case> {
 protected:
  /// The replica is lost in the state, and the others train to the next rest.
  void lose(int member) {
    bring_into(state(), member, meetings_);
    meetings_.leave(member);
    const bool is_open =
        state() != State::before_opening && state() != State::early;
    if (!is_open && member != 1) meetings_.open();
    if (state() == State::rested) meetings_.next_grant();
    meetings_.train();
    grants_ = state() == State::rested ? 2 : 1;
    EXPECT_THAT(meetings_.waiting(), IsEmpty()) << "wait for ever";
    EXPECT_EQ(meetings_.notes().wrong, "");
  }
  State state() const { return GetParam().state; }
  const Policy& policy() const { return *GetParam().policy; }
  void expect_each_batch_once() const {
    EXPECT_THAT(meetings_.notes().taken,
                UnorderedElementsAreArray(batches_of(grants_)));
  }

  Meetings meetings_{*GetParam().policy};
  std::int64_t grants_ = 0;
};

INSTANTIATE_TEST_SUITE_P(States, ReplicaLostInEachState,
                         testing::ValuesIn(cases()), name_of);

TEST_P(ReplicaLostInEachState, LeavesItsWorkAndItsPlaceToOthers) {
  lose(kLast);
  if (!policy().quorum.survives_loss(kMembers)) {
    for (const int other : {1, 2, 3})
      EXPECT_THAT(meetings_.failures().at(other),
                  HasSubstr("block 1: replica 4 is gone"));
    return;
  }
  EXPECT_THAT(meetings_.failures(), IsEmpty());
  EXPECT_THAT(meetings_.rested(), ElementsAre(1, 2, 3));
  expect_each_batch_once();

  meetings_.next_grant();
  ++grants_;
  meetings_.enter(kLast);
  EXPECT_TRUE(meetings_.weights(kLast).allclose(meetings_.agreed(), 1e-12));
  meetings_.train();
  EXPECT_THAT(meetings_.failures(), IsEmpty());
  EXPECT_THAT(meetings_.rested(), ElementsAre(1, 2, 3, 4));
  expect_each_batch_once();
  EXPECT_EQ(meetings_.notes().wrong, "");
  EXPECT_THAT(meetings_.notes().lives, ElementsAre("4 is lost", "4 enters"));
  if (policy().moved) {
    EXPECT_TRUE(meetings_.agreed().allclose(
        start() + policy().moved(grants_ * kBatches), 1e-12));
  }
}

TEST_P(ReplicaLostInEachState, IsSaidToHaveBeenInItAtTheNextRest) {
  lose(kLast);
  if (!policy().quorum.survives_loss(kMembers)) return;
  ASSERT_EQ(meetings_.losses().size(), 1U);
  const CentreLoss& loss = meetings_.losses().front();
  EXPECT_EQ(loss.member, kLast);
  EXPECT_EQ(loss.served > 0, state() >= State::early);
  EXPECT_GE(loss.place, loss.served);
  const bool was_merged =
      policy().quorum.is_there() && state() >= State::merged;
  EXPECT_EQ(loss.merged > 0, was_merged);
  EXPECT_EQ(loss.rests, state() == State::resting);
  meetings_.next_grant();
  meetings_.train();
  EXPECT_THAT(meetings_.losses(), IsEmpty()) << "it is said once";
}

/// The first replica, which opens the centre before it pushes.
class FirstReplicaLostInEachState : public ReplicaLostInEachState {};

std::vector<Case> cases_of_first() {
  std::vector<Case> all = cases();
  std::erase_if(all,
                [](const Case& each) { return each.state == State::early; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(States, FirstReplicaLostInEachState,
                         testing::ValuesIn(cases_of_first()), name_of);

TEST_P(FirstReplicaLostInEachState, EndsTheRunOfTheOthersByItsName) {
  lose(1);
  for (const int other : {2, 3, 4})
    EXPECT_THAT(meetings_.failures().at(other),
                HasSubstr("block 1: replica 1 is gone"));
}

}  // namespace sluice::lost_states_test
