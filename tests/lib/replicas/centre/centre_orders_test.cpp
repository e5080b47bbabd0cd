// Orders in which replicas come to a centre with a quorum, rest, are
// lost, and in which it learns of that: no replica may wait for ever, and
// no merge may be of fewer than the quorum. (A run once stood still: block 1 of
// replica 2 had come to rest before replica 1 had made its seat.)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/replicas/centre/centre.h"
#include "lib/replicas/centre/centre_rule.h"

namespace sluice::centre_orders_test {

constexpr int kMembers = 3;
constexpr int kQuorum = 2;
/// What a replica does that is never lost: more steps than any script has.
constexpr std::size_t kNever = 100;
/// Calls back with each merge.
class CallingRule final : public CentreRule {
 public:
  explicit CallingRule(std::function<void(std::size_t)> merged)
      : merged_(std::move(merged)) {}
  void begin(const Tensors& /*weights*/, std::int64_t /*clock*/) override {}
  void merge(std::vector<Push> pushes) override { merged_(pushes.size()); }
  ServerAnswer give(int /*member*/) override { return {}; }
  ServerAnswer take_back(int /*member*/) override { return {}; }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }

 private:
  const std::function<void(std::size_t)> merged_;
};

/// Chooses one of so many events.
using Choose = std::function<std::size_t(std::size_t)>;

/// One order of what replicas say to a centre, of its answers, of a loss and of
/// the ends of graces.
class Play {
 public:
  /// dies_after: messages that the last replica has sent or got when it is
  /// lost.
  Play(int pushes, std::size_t dies_after) : dies_after_(dies_after) {
    std::vector<CentreMessage> script = {CentreMessage::arrival};
    for (int i = 0; i < pushes; ++i)
      script.insert(script.end(), {CentreMessage::bring, CentreMessage::take});
    script.push_back(CentreMessage::arrival);
    scripts_.assign(kMembers, script);
    scripts_.front().insert(scripts_.front().begin(), CentreMessage::open);
  }

  /// Returns what is wrong, or nothing.
  std::string run(const Choose& choose) {
    while (wrong_.empty()) {
      std::vector<int> events;
      for (int member = 1; member <= kMembers; ++member)
        if (can_speak(member)) events.push_back(member);
      if (is_dead() && !is_noticed_) events.push_back(kLoss);
      if (centre_.due()) events.push_back(kGrace);
      if (events.empty()) break;
      happen(events.at(choose(events.size())));
    }
    return result();
  }

 private:
  struct Place {
    std::size_t next = 0;  // of the script
    bool waits = false;    // for an answer
    std::size_t done = 0;  // messages sent and got
  };
  static constexpr int kLoss = kMembers + 1;
  static constexpr int kGrace = kMembers + 2;

  bool is_dead() const { return places_.back().done >= dies_after_; }
  bool is_gone(int member) const { return member == kMembers && is_dead(); }
  bool can_speak(int member) const {
    const Place& place = by_block(places_, member);
    return !place.waits && !is_gone(member) &&
           place.next < by_block(scripts_, member).size();
  }

  void happen(int event) {
    if (event == kLoss)
      notice();
    else if (event == kGrace)
      centre_.come_due();
    else
      speak(event);
  }

  void notice() {
    order_ += " loss";
    is_noticed_ = true;
    away_.insert(kMembers);
    centre_.leave(kMembers);
    all_rest();
  }

  void speak(int member) {
    Place& place = by_block(places_, member);
    const CentreMessage said = by_block(scripts_, member)[place.next++];
    order_ += fmt::format(" {}-{}", member, static_cast<int>(said));
    ++place.done;
    place.waits = said != CentreMessage::open;
    if (said == CentreMessage::open)
      centre_.hear(member, message_of(CentreOpening{}));
    else if (said == CentreMessage::bring)
      centre_.hear(member, message_of(Push{}, said));
    else if (said == CentreMessage::take)
      centre_.hear(member, message_of(0, said));
    else
      arrive(member);
  }

  void arrive(int member) {
    away_.insert(member);
    centre_.hear(member, message_of_arrival({}));
    all_rest();
  }

  void answered(int member, const Message& message) {
    Place& place = by_block(places_, member);
    place.waits = false;
    ++place.done;
    if (said_in(message) == CentreMessage::failure)
      wrong_ = failure_in(message).text;
  }

  void merged(std::size_t pushes) {
    const std::size_t active = kMembers - away_.size();
    if (pushes < std::min<std::size_t>(kQuorum, active))
      wrong_ = fmt::format("a merge of {} where {} go on", pushes, active);
  }

  /// Replicas that rest go on when all do.
  void all_rest() {
    if (away_.size() < kMembers) return;
    away_.clear();
    if (is_noticed_) away_.insert(kMembers);
  }

  std::string result() const {
    if (!wrong_.empty()) return wrong_ + ", after" + order_;
    std::string all;
    for (int member = 1; member <= kMembers; ++member)
      if (!is_gone(member) && by_block(places_, member).waits)
        all += fmt::format("replica {} waits for ever, ", member);
    return all.empty() ? all : all + "after" + order_;
  }

  const std::size_t dies_after_;
  std::vector<std::vector<CentreMessage>> scripts_;
  std::vector<Place> places_ = std::vector<Place>(kMembers);
  std::set<int> away_;  // who rest, and who is known to be lost
  bool is_noticed_ = false;
  std::string order_;
  std::string wrong_;
  Centre centre_{{.members = kMembers,
                  .name = "block 1",
                  .quorum = {.least = kQuorum},
                  .make =
                      [this](const NamedTensors& /*parameters*/) {
                        return std::make_unique<CallingRule>(
                            [this](std::size_t of) { merged(of); });
                      }},
                 [this](int member, const Message& message) {
                   answered(member, message);
                 }};
};

/// All sequences of choices, one after the other.
class Odometer {
 public:
  std::size_t choose(std::size_t of) {
    if (at_ == digits_.size()) digits_.push_back({0, of});
    return digits_[at_++].first;
  }
  /// False after the last one.
  bool advance() {
    at_ = 0;
    while (!digits_.empty() &&
           digits_.back().first + 1 == digits_.back().second)
      digits_.pop_back();
    if (digits_.empty()) return false;
    ++digits_.back().first;
    return true;
  }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> digits_;  // choice, of
  std::size_t at_ = 0;
};

/// How many orders there are, all of which end well; 0: one doesn't.
std::size_t orders_that_end_well(std::size_t dies_after) {
  Odometer all;
  std::size_t orders = 0;
  do {
    Play play(1, dies_after);
    const std::string wrong =
        play.run([&](std::size_t of) { return all.choose(of); });
    EXPECT_EQ(wrong, "");
    if (!wrong.empty()) return 0;
    ++orders;
  } while (all.advance());
  return orders;
}

TEST(OrdersAtACentre, LeaveNoReplicaWaitingWhereNoneIsLost) {
  EXPECT_GT(orders_that_end_well(kNever), 100U);
}

// After each of its messages and answers, waits for a merge and a rest among
// them; the centre learns of it at any later time.
TEST(OrdersAtACentre, LeaveNoReplicaWaitingWhereOneIsLost) {
  for (std::size_t dies_after = 0; dies_after < 8; ++dies_after)
    EXPECT_GT(orders_that_end_well(dies_after), 10U) << dies_after;
}

TEST(OrdersAtACentre, LeaveNoReplicaWaitingInLongerRuns) {
  std::mt19937_64 draws(7);
  for (int times = 0; times < 3'000; ++times) {
    Play play(3, draws() % 16);
    const std::string wrong =
        play.run([&](std::size_t of) { return draws() % of; });
    ASSERT_EQ(wrong, "") << times;
  }
}

}  // namespace sluice::centre_orders_test
