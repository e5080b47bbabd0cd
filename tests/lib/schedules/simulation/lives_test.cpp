// Simulated replicas that join, and that are lost, in random schedules: each
// batch of the run is applied once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::lives_test {

using Batches = std::set<std::int64_t>;

/// A choice of chance.
class Chance {
 public:
  explicit Chance(std::uint32_t seed) : random_(seed) {}
  int below(int end) {
    return static_cast<int>(random_() % static_cast<unsigned>(end));
  }
  int between(int first, int last) { return first + below(last - first + 1); }
  bool one_of(int count) { return below(count) == 0; }

 private:
  std::mt19937 random_;
};

/// Boundaries of back-propagation, of delayed gradients, and of a local loss.
const std::vector<Traits> kBoundaries[] = {
    {},
    {Traits{}},
    {Traits{.delay = 1}},
    {Traits{.delay = 2}, Traits{.delay = 1}},
    {Traits{.cut = true, .from_above = false, .own = true},
     Traits{.delay = 1}}};

ReplicaExchange drawn_exchange(Chance& chance, int replicas) {
  ReplicaExchange exchange{
      .what = ExchangedTensors::gradients, .agrees = true, .served = true};
  if (chance.one_of(2)) return exchange;
  exchange.what = ExchangedTensors::weights;
  exchange.every = chance.between(1, 4);
  if (chance.one_of(2))
    exchange.quorum = {.least = chance.between(1, replicas - 1),
                       .grace = chance.one_of(2) ? 0 : 2.0};
  return exchange;
}

/// A run whose replicas join, are lost, and come back where it is continued, by
/// chance; and what becomes of its batches at the centre of block 1.
class RandomLives {
 public:
  explicit RandomLives(std::uint32_t seed, bool is_continued = true)
      : is_continued_(is_continued),
        chance_(seed),
        replicas_(chance_.between(2, 6)),
        started_(chance_.between(1, replicas_)),
        plan_(with_replicas(make_free_plan(kBoundaries[chance_.below(5)], 1, 3),
                            replicas_, drawn_exchange(chance_, replicas_),
                            false, Dealing::arrival)),
        costs_{.jitter = 0.3, .seed = seed},
        ledgers_(plan_.blocks.size()),
        lines_(plan_.blocks.size()) {
    for (int replica = 1; replica <= replicas_; ++replica) {
      const double slowness = chance_.between(1, 4);
      for (int block = 1; block <= plan_.depth(); ++block)
        costs_.blocks.push_back(
            {.seconds = {{Op::forward, 1}, {Op::backward, 2}},
             .slowness = slowness});
      if (replica <= started_) there_.insert(replica);
    }
    begin();
  }

  void go(std::int64_t turns) {
    turns_ = turns;
    while (turn_ < turns && !testing::Test::HasFatalFailure()) {
      const bool is_saved = grant();
      if (is_saved && is_continued_ && turn_ < turns && chance_.one_of(3))
        resume();
    }
    for (const int replica : there_) apply(replica);
    for (const std::int64_t batch : simulation_->returned())
      undone_.insert(batch);
  }

  std::vector<std::int64_t> applied() {
    std::sort(applied_.begin(), applied_.end());
    return applied_;
  }
  /// Batches that were dealt to a replica which isn't there any more, and not
  /// dealt again, because the run was over, or continued from a checkpoint.
  const Batches& undone() const { return undone_; }
  std::vector<std::int64_t> expected() const {
    std::vector<std::int64_t> all;
    for (std::int64_t batch = 0; batch < turns_ * replicas_; ++batch)
      if (!undone_.contains(batch)) all.push_back(batch);
    return all;
  }
  int joins() const { return joins_; }
  int losses() const { return losses_; }
  int resumes() const { return resumes_; }

  const RunPlan& plan() const { return plan_; }
  const ReplicaExchange& exchange() const {
    return plan_.blocks.front().exchange;
  }
  /// All that the seats did, with the places that the centres gave them.
  const std::vector<std::vector<Action>>& lines() const { return lines_; }

 private:
  void begin() {
    simulation_.emplace(Plans{plan_}, costs_, capacities_of(plan_, 2));
    for (int replica = 1; replica <= replicas_; ++replica)
      if (!there_.contains(replica)) simulation_->lose(replica, 0);
  }

  /// Carries out a grant, at whose start replicas join, and in which some are
  /// lost. Returns whether it ended with a checkpoint.
  bool grant() {
    Grant grant{.first_turn = turn_,
                .end_turn = std::min<std::int64_t>(
                    turns_, turn_ + chance_.between(1, 6))};
    grant.checkpoint = chance_.one_of(2);
    grant.drain = grant.end_turn == turns_;
    std::set<int> new_ones;
    for (int replica = 2; replica <= replicas_; ++replica)
      if (turn_ > 0 && !there_.contains(replica) && chance_.one_of(3))
        new_ones.insert(replica);
    for (const int replica : new_ones) join(replica);
    for (const BlockPlan& each : plan_.blocks) {
      if (!there_.contains(each.replica)) continue;
      grant.joins = new_ones.contains(each.replica);
      simulation_->give(each.seat(), grant);
    }
    given_back_.clear();
    while (const auto timed = simulation_->next()) {
      now_ = std::max(now_, timed->end);
      note(*timed);
      const int replica = chance_.between(1, replicas_);
      if (chance_.one_of(40) && replica > 1 && there_.contains(replica))
        lose(replica, timed->start);
    }
    EXPECT_TRUE(simulation_->finished()) << simulation_->stuck();
    expect_returned_in(given_back_);
    turn_ = grant.end_turn;
    return grant.checkpoint;
  }

  /// What was lost before this grant has been dealt again in it.
  void expect_returned_in(const Batches& now) const {
    for (const std::int64_t batch : simulation_->returned())
      EXPECT_TRUE(now.contains(batch)) << batch;
  }

  void record(const TimedAction& timed) {
    const BlockPlan& mine = by_block(plan_.blocks, timed.seat);
    by_block(ledgers_, timed.seat).did(mine, timed.action);
    std::vector<Action>& line = by_block(lines_, timed.seat);
    line.push_back(timed.action);
    if (timed.action.op == Op::settle &&
        timed.action.kind != ExchangeKind::agreement &&
        timed.action.kind != ExchangeKind::pull)
      line.back().arrived = ++served_[mine.block];
  }

  void join(int replica) {
    ++joins_;
    simulation_->admit(replica, now_);
    there_.insert(replica);
    for (const BlockPlan& each : plan_.blocks)
      if (each.replica == replica) by_block(ledgers_, each.seat()) = {};
  }

  void note(const TimedAction& timed) {
    const BlockPlan& mine = by_block(plan_.blocks, timed.seat);
    const Action& action = timed.action;
    record(timed);
    if (mine.block != 1) return;
    const int replica = mine.replica;
    const bool is_pushed =
        action.op == Op::settle && action.kind == ExchangeKind::push;
    const bool has_quorum = exchange().quorum.is_there();
    if (action.op == Op::forward) held_[replica].insert(action.batch);
    if (exchange().what == ExchangedTensors::gradients) {
      if (is_pushed) made_[replica] = {action.batch};
    } else if (action.op == Op::update) {
      made_[replica].insert(action.batch);
    }
    const bool is_taken = has_quorum ? action.op == Op::settle &&
                                           action.kind == ExchangeKind::pull
                                     : is_pushed;
    waits_[replica] = has_quorum && is_pushed;
    if (is_taken) apply(replica);
  }

  /// What the replica has made since its last push counts.
  void apply(int replica) {
    for (const std::int64_t batch : made_[replica]) {
      applied_.push_back(batch);
      held_[replica].erase(batch);
    }
    made_[replica].clear();
  }

  /// What the replica has that wasn't taken is dealt again, unless it was dealt
  /// before the run was continued.
  void lose(int replica, double time) {
    ++losses_;
    const Batches before = simulation_->returned();
    simulation_->lose(replica, time);
    there_.erase(replica);
    Batches given_back;
    std::set_difference(simulation_->returned().begin(),
                        simulation_->returned().end(), before.begin(),
                        before.end(),
                        std::inserter(given_back, given_back.end()));
    // Others may have come to a merge, which it had no time to take.
    const bool is_merged = waits_[replica] && !made_[replica].empty() &&
                           !given_back.contains(*made_[replica].rbegin()) &&
                           !kept_[replica].contains(*made_[replica].rbegin());
    if (is_merged) apply(replica);
    Batches lost = std::exchange(held_[replica], {});
    for (const std::int64_t batch : std::exchange(kept_[replica], {}))
      if (lost.erase(batch) > 0) undone_.insert(batch);
    EXPECT_EQ(given_back, lost);
    given_back_.merge(given_back);
    for (const BlockPlan& each : plan_.blocks) {
      std::vector<Action>& line = by_block(lines_, each.seat());
      const bool is_open = each.replica == replica && !line.empty() &&
                           line.back().op == Op::exchange &&
                           line.back().kind != ExchangeKind::agreement;
      if (is_open) line.pop_back();
    }
    made_[replica].clear();
    waits_[replica] = false;
  }

  /// Goes on in another process, from the checkpoint: replicas that have joined
  /// aren't there any more, and those that were lost are again.
  void resume() {
    ++resumes_;
    for (const std::int64_t batch : simulation_->returned())
      undone_.insert(batch);
    for (int replica = 1; replica <= replicas_; ++replica) {
      const bool is_new = replica > started_ || !there_.contains(replica);
      if (replica > started_)
        for (const std::int64_t batch : held_[replica]) undone_.insert(batch);
      if (is_new) {
        held_[replica].clear();
        made_[replica].clear();
        for (const BlockPlan& each : plan_.blocks)
          if (each.replica == replica) by_block(ledgers_, each.seat()) = {};
      }
      if (replica <= started_)
        there_.insert(replica);
      else
        there_.erase(replica);
      kept_[replica] = held_[replica];
      waits_[replica] = false;
    }
    costs_.seed += 1;
    begin();
    simulation_->begin_free_at(0, ledgers_);
    now_ = 0;
  }

  const bool is_continued_;
  Chance chance_;
  const int replicas_;
  const int started_;
  const RunPlan plan_;
  Costs costs_;
  std::vector<Ledger> ledgers_;             // by seat
  std::vector<std::vector<Action>> lines_;  // by seat
  std::map<int, std::int64_t> served_;      // by block
  std::optional<Simulation> simulation_;
  std::set<int> there_;  // replicas
  std::int64_t turns_ = 0;
  std::int64_t turn_ = 0;
  double now_ = 0;
  std::map<int, Batches> held_;  // by replica: dealt, not yet taken
  std::map<int, Batches> kept_;  // of these, dealt before the run was continued
  std::map<int, Batches> made_;  // updates since its last push
  std::map<int, bool> waits_;    // for a merge
  Batches given_back_;           // in this grant
  std::vector<std::int64_t> applied_;
  Batches undone_;
  int joins_ = 0;
  int losses_ = 0;
  int resumes_ = 0;
};

/// SLUICE_LIVES: how many; SLUICE_SEED: of their choices.
std::uint32_t from_environment(const char* name, std::uint32_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise
                         : static_cast<std::uint32_t>(std::stoul(text));
}

TEST(RandomLivesOfReplicas, HaveEachBatchOfTheRunAppliedOnce) {
  const std::uint32_t seed =
      from_environment("SLUICE_SEED", std::random_device{}());
  fmt::print("SLUICE_SEED={}\n", seed);
  const std::uint32_t wanted = from_environment("SLUICE_LIVES", 3000);
  int joins = 0, losses = 0, resumes = 0;
  std::size_t undone = 0;
  for (std::uint32_t run = 0; run < wanted; ++run) {
    RandomLives lives(seed + run);
    lives.go(12);
    ASSERT_FALSE(HasFailure()) << "SLUICE_SEED=" << seed + run;
    ASSERT_EQ(lives.applied(), lives.expected())
        << "SLUICE_SEED=" << seed + run;
    joins += lives.joins();
    losses += lives.losses();
    resumes += lives.resumes();
    undone += lives.undone().size();
  }
  fmt::print("{} joins, {} losses, {} resumes; {} batches undone\n", joins,
             losses, resumes, undone);
}

/// Lines of a record, as a simulation repeats them.
std::vector<std::vector<Action>> repeated(
    const RunPlan& plan, const std::vector<std::vector<Action>>& lines) {
  std::vector<std::vector<Action>> again(lines.size());
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  for (const TimedAction& timed :
       simulate(plan, {}, std::vector<Capacity>(lines.size() - 1, {kAll, kAll}),
                lines))
    by_block(again, timed.seat).push_back(timed.action);
  return again;
}

// A place that is taken again and again, too.
TEST(RandomLivesOfReplicas, AreRepeatedAsTheyAreRecorded) {
  const std::uint32_t seed =
      from_environment("SLUICE_SEED", std::random_device{}());
  fmt::print("SLUICE_SEED={}\n", seed);
  int again = 0;
  for (std::uint32_t run = 0; run < 500; ++run) {
    RandomLives lives(seed + run, false);
    if (lives.exchange().quorum.is_there()) continue;
    lives.go(16);
    ASSERT_EQ(repeated(lives.plan(), lives.lines()), lives.lines())
        << "SLUICE_SEED=" << seed + run;
    for (const std::vector<Action>& line : lives.lines())
      again +=
          std::count_if(line.begin(), line.end(), [](const Action& each) {
            return each.op == Op::settle && each.kind == ExchangeKind::entry;
          }) > 1;
  }
  EXPECT_GT(again, 50) << "places that two replicas took";
}

}  // namespace sluice::lives_test
