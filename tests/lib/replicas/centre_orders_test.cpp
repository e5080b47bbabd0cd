// Orders in which replicas come to a parameter server with a quorum, rest, are
// lost, and in which the server learns of it: no replica may wait for ever, and
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
#include "lib/base/error.h"
#include "lib/replicas/centre.h"

namespace sluice::centre_orders_test {

constexpr int kMembers = 3;
constexpr int kQuorum = 2;
/// What a replica does that is never lost: more steps than any script has.
constexpr std::size_t kNever = 100;
/// A grace that is over as soon as a replica asks.
constexpr double kShort = 1e-9;

/// Calls back with each merge.
class CallingRule final : public CentreRule {
 public:
  explicit CallingRule(std::function<void(std::size_t)> merged)
      : merged_(std::move(merged)) {}
  void begin(const Tensors& /*weights*/, std::int64_t /*clock*/) override {}
  void merge(std::vector<Push> pushes) override { merged_(pushes.size()); }
  ServerAnswer give(int /*member*/) override { return {}; }
  Tensors consensus() const override { return {}; }
  NamedTensors state() const override { return {}; }

 private:
  const std::function<void(std::size_t)> merged_;
};

enum class Step : std::uint8_t { own, push, rest };

/// Chooses one of so many events.
using Choose = std::function<std::size_t(std::size_t)>;

/// One order of events at a server whose waits end at once with an error, so
/// that one thread plays all replicas.
class Play {
 public:
  /// dies_after: steps that the last replica has begun or ended when it is
  /// lost.
  Play(double grace, int pushes, std::size_t dies_after)
      : dies_after_(dies_after) {
    quorum_ = {.least = kQuorum, .grace = grace};
    std::vector<Step> script(static_cast<std::size_t>(pushes), Step::push);
    script.insert(script.begin(), Step::rest);
    script.push_back(Step::rest);
    scripts_.assign(kMembers, script);
    scripts_.front().insert(scripts_.front().begin(), Step::own);
  }

  /// Among all events that can happen, those chosen; waits end as soon as they
  /// can. Returns what is wrong, or nothing.
  std::string run_eagerly(const Choose& choose) {
    while (wrong_.empty()) {
      end_waits();
      std::vector<int> ready;
      for (int member = 1; member <= kMembers; ++member)
        if (can_begin(member)) ready.push_back(member);
      if (is_dead() && !is_noticed_) ready.push_back(kLoss);
      if (ready.empty()) break;
      happen(ready.at(choose(ready.size())));
    }
    return result();
  }

  /// As above, where a replica may be late to see that its wait is over.
  std::string run_lazily(const Choose& choose) {
    std::set<int> vain;
    while (wrong_.empty()) {
      std::vector<int> all;
      for (int member = 1; member <= kMembers; ++member)
        if ((is_waiting(member) || can_begin(member)) && !vain.contains(member))
          all.push_back(member);
      if (is_dead() && !is_noticed_) all.push_back(kLoss);
      if (all.empty()) break;
      const int event = all.at(choose(all.size()));
      if (happen(event))
        vain.clear();
      else
        vain.insert(event);
    }
    return result();
  }

  const std::string& order() const { return order_; }

 private:
  struct Place {
    std::size_t next = 0;  // of the script
    bool waits = false;    // for the end of that step
    std::size_t done = 0;  // beginnings and ends
    std::int64_t rests = 0;
  };
  static constexpr int kLoss = kMembers + 1;

  bool is_dead() const { return places_.back().done >= dies_after_; }
  bool is_gone(int member) const { return member == kMembers && is_dead(); }
  bool is_waiting(int member) const {
    return by_block(places_, member).waits && !is_gone(member);
  }
  bool can_begin(int member) const {
    const Place& place = by_block(places_, member);
    const auto& script = by_block(scripts_, member);
    if (place.waits || is_gone(member) || place.next == script.size())
      return false;
    return is_open_ || script[place.next] != Step::push;
  }

  void end_waits() {
    bool any = true;
    while (any) {
      any = false;
      for (int member = 1; member <= kMembers; ++member)
        any = (is_waiting(member) && happen(member)) || any;
    }
  }

  /// False where the replica would wait.
  bool happen(int event) {
    try {
      if (event == kLoss)
        notice();
      else
        move(event);
      return true;
    } catch (const PeerGoneError& error) {
      wrong_ = error.what();
    } catch (const LinkError&) {  // it would wait
    }
    return false;
  }

  void notice() {
    order_ += " loss";
    is_noticed_ = true;
    away_.insert(kMembers);
    centre_.leave(kMembers);
    all_rest();
  }

  void move(int member) {
    Place& place = by_block(places_, member);
    const Step step = by_block(scripts_, member)[place.next];
    if (place.waits)
      end(member, step, place);
    else
      begin(member, step, place);
    ++place.done;
  }

  void begin(int member, Step step, Place& place) {
    constexpr const char* kNames[] = {"owns", "pushes", "rests"};
    order_ += fmt::format(" {}-{}", member, kNames[static_cast<int>(step)]);
    if (step == Step::own) {
      centre_.own(
          std::make_unique<CallingRule>([this](std::size_t of) { merged(of); }),
          {}, quorum_);
      centre_.open({}, 0);
      is_open_ = true;
      ++place.next;
      return;
    }
    place.waits = true;
    if (step == Step::push) {
      centre_.bring({.member = member});
      return;
    }
    ++place.rests;
    away_.insert(member);
    centre_.arrive(member, {});
    all_rest();
  }

  void end(int member, Step step, Place& place) {
    if (step == Step::push)
      centre_.take(member, false);
    else
      centre_.await_rest(place.rests);
    place.waits = false;
    ++place.next;
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
      if (!is_gone(member) &&
          by_block(places_, member).next < by_block(scripts_, member).size())
        all += fmt::format("replica {} waits for ever, ", member);
    return all.empty() ? all : all + "after" + order_;
  }

  const std::size_t dies_after_;
  Quorum quorum_;
  Centre centre_{kMembers, Deadline(0), "block 1"};
  std::vector<std::vector<Step>> scripts_;
  std::vector<Place> places_ = std::vector<Place>(kMembers);
  std::set<int> away_;  // who rest, and who is known to be lost
  bool is_open_ = false;
  bool is_noticed_ = false;
  std::string order_;
  std::string wrong_;
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
    Play play(0, 1, dies_after);
    const std::string wrong =
        play.run_eagerly([&](std::size_t of) { return all.choose(of); });
    EXPECT_EQ(wrong, "");
    if (!wrong.empty()) return 0;
    ++orders;
  } while (all.advance());
  return orders;
}

TEST(OrdersAtACentre, LeaveNoReplicaWaitingWhereNoneIsLost) {
  EXPECT_GT(orders_that_end_well(kNever), 100U);
}

// After each of its steps, pushes and rests among them that are half done; the
// server learns of it at any later time.
TEST(OrdersAtACentre, LeaveNoReplicaWaitingWhereOneIsLost) {
  for (std::size_t dies_after = 0; dies_after < 6; ++dies_after)
    EXPECT_GT(orders_that_end_well(dies_after), 10U) << dies_after;
}

TEST(OrdersAtACentre, LeaveNoReplicaWaitingWhereAGraceEndsLate) {
  std::mt19937_64 draws(7);
  for (int times = 0; times < 3'000; ++times) {
    Play play(times % 2 == 0 ? kShort : 0, 2, draws() % 10);
    const std::string wrong =
        play.run_lazily([&](std::size_t of) { return draws() % of; });
    ASSERT_EQ(wrong, "") << times;
  }
}

/// A server that has an owner.
void own(Centre& centre) {
  centre.own(std::make_unique<CallingRule>([](std::size_t) {}), {},
             {.least = kQuorum});
  centre.open({}, 0);
}

// The order in which the run stood still: replica 1 waited for replica 2 to
// push, which waited for replica 1 to rest.
TEST(OrdersAtACentre, LetAReplicaRestBeforeItsOwnerIsThere) {
  Centre centre(kMembers, Deadline(0), "block 1");
  centre.arrive(2, {});
  own(centre);
  centre.arrive(1, {});
  centre.arrive(3, {});
  centre.leave(3);
  centre.arrive(2, {});
  centre.bring({.member = 1});
  EXPECT_NO_THROW(centre.take(1, false)) << "only replica 1 goes on";
  centre.arrive(1, {});
  EXPECT_NO_THROW(centre.await_rest(2));
}

TEST(OrdersAtACentre, LetAReplicaBeLostBeforeItsOwnerIsThere) {
  Centre centre(kMembers, Deadline(0), "block 1");
  centre.leave(3);
  own(centre);
  centre.bring({.member = 1});
  centre.bring({.member = 2});
  EXPECT_NO_THROW(centre.take(1, false));
  EXPECT_NO_THROW(centre.take(2, false));
}

TEST(OrdersAtACentre, EndTheWaitsOfOthersThatCannotGoOnWithoutIt) {
  Centre centre(2, Deadline(0), "block 1");
  centre.leave(2);
  own(centre);
  EXPECT_THROW(centre.bring({.member = 1}), PeerGoneError);
}

}  // namespace sluice::centre_orders_test
