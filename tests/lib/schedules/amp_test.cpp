// AMP on a chain of blocks: messages are taken in the order in which they come,
// and staleness is bounded by the batches in flight and by a block's window.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/table.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/admissions.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::amp_test {

using testing::StartsWith;
using Windows = std::vector<std::int64_t>;

constexpr Traits kDelayed = {.delay = 1};
constexpr std::int64_t kTurns = 24;

RunPlan amp(int blocks, std::int64_t in_flight, const Windows& windows,
            Priority priority = Priority::arrival) {
  const std::vector<Traits> boundaries(static_cast<std::size_t>(blocks) - 1,
                                       kDelayed);
  return find_row(schedule_rows(), "free", "order")
      .make(boundaries, {.in_flight = in_flight,
                         .priority = priority,
                         .accumulate_by_block = windows});
}

Costs slow_by(const std::vector<double>& slowness, double latency = 0,
              double jitter = 0) {
  Costs costs{.latency = latency, .jitter = jitter, .seed = 3};
  for (const double slow : slowness)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

std::vector<TimedAction> timeline_of(const RunPlan& plan, const Costs& costs) {
  return simulate(plan, costs, capacities_of(plan, 0),
                  {.end_turn = kTurns, .drain = true});
}

std::string done_by(int block, const std::vector<TimedAction>& timeline) {
  std::vector<Action> actions;
  for (const TimedAction& timed : timeline)
    if (timed.seat == block) actions.push_back(timed.action);
  return to_text(actions);
}

/// Updates of the block between the forward and the backward of a batch, at
/// most.
std::int64_t most_updates(int block, const std::vector<TimedAction>& timeline) {
  std::int64_t version = 0;
  std::int64_t most = 0;
  std::map<std::int64_t, std::int64_t> at_forward;
  for (const TimedAction& timed : timeline) {
    if (timed.seat != block) continue;
    const Action& action = timed.action;
    if (action.op == Op::forward) at_forward[action.batch] = version;
    if (action.op == Op::update) ++version;
    if (action.op == Op::backward)
      most = std::max(most, version - at_forward.at(action.batch));
  }
  return most;
}

/// ceil((mak - 1) / muf)
std::int64_t bound(std::int64_t in_flight, std::int64_t window) {
  return (in_flight - 1 + window - 1) / window;
}

TEST(Amp, NoGradientIsMoreUpdatesOldThanTheBound) {
  for (const std::int64_t in_flight : {1, 2, 3, 4, 7})
    for (const Windows& windows :
         {Windows{1, 1, 1}, Windows{2, 2, 2}, Windows{4, 1, 3}})
      for (const Costs& costs :
           {slow_by({1, 1, 1}), slow_by({1, 9, 1}), slow_by({9, 1, 2}),
            slow_by({1, 2, 9}, 3, 0.9)}) {
        const auto timeline = timeline_of(amp(3, in_flight, windows), costs);
        for (int block = 1; block <= 3; ++block)
          EXPECT_LE(most_updates(block, timeline),
                    bound(in_flight, by_block(windows, block)))
              << in_flight << " in flight, block " << block;
      }
}

TEST(Amp, BelowASlowBlockTheBoundIsReached) {
  for (const std::int64_t in_flight : {1, 2, 3, 4, 7})
    for (const std::int64_t window : {1, 2, 3})
      EXPECT_EQ(most_updates(1, timeline_of(amp(2, in_flight, {window, 1}),
                                            slow_by({1, 20}))),
                bound(in_flight, window))
          << in_flight << " in flight, windows of " << window;
}

TEST(Amp, NeverHasMoreBatchesInTheNetworkThanAllowed) {
  for (const Costs& costs : {slow_by({1, 9, 1}), slow_by({2, 1, 9}, 3, 0.9)}) {
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (const TimedAction& timed : timeline_of(amp(3, 4, {1, 1, 1}), costs)) {
      if (timed.seat != 1) continue;
      if (timed.action.op == Op::forward) ++now;
      if (timed.action.op == Op::backward) --now;
      most = std::max(most, now);
    }
    EXPECT_EQ(most, 4);
    EXPECT_EQ(now, 0);
  }
}

TEST(Amp, EveryForwardHasItsBackwardInEveryBlock) {
  for (const Costs& costs : {slow_by({1, 9, 1}), slow_by({2, 1, 9}, 3, 0.9)}) {
    std::map<std::pair<int, std::int64_t>, std::string> done;
    for (const TimedAction& timed : timeline_of(amp(3, 4, {4, 1, 3}), costs))
      if (timed.action.op == Op::forward || timed.action.op == Op::backward)
        done[{timed.seat, timed.action.batch}] +=
            timed.action.op == Op::forward ? 'F' : 'B';
    EXPECT_EQ(std::ssize(done), 3 * kTurns);
    for (const auto& [of, ops] : done) EXPECT_EQ(ops, "FB") << of.second;
  }
}

TEST(Amp, EveryBlockUpdatesAsItsOwnWindowsFill) {
  const auto timeline = timeline_of(amp(3, 4, {4, 1, 3}), slow_by({1, 3, 2}));
  std::map<int, std::int64_t> updates;
  for (const TimedAction& timed : timeline)
    if (timed.action.op == Op::update) ++updates[timed.seat];
  EXPECT_EQ(updates, (std::map<int, std::int64_t>{{1, 6}, {2, 24}, {3, 8}}));
}

// Block 2 forwards until 4 and 7; the activation of batch 2 has come at 3, the
// gradient of batch 0 at 7.
TEST(Amp, TakesTheMessageThatCameFirst) {
  const Costs costs = slow_by({1, 3, 1});
  EXPECT_THAT(done_by(2, timeline_of(amp(3, 3, {1, 1, 1}), costs)),
              StartsWith("F0 F1 F2 B0 U0"));
  EXPECT_THAT(
      done_by(2, timeline_of(amp(3, 3, {1, 1, 1}, Priority::backward), costs)),
      StartsWith("F0 F1 B0 U0"));
}

// Three batches are let in at once; the next one when the first has gone
// backward, at 15, when two gradients have been there for long.
TEST(Amp, Block1LetsABatchInWhenOneHasGoneBackward) {
  const Costs costs = slow_by({3, 1});
  EXPECT_THAT(done_by(1, timeline_of(amp(2, 3, {1, 1}), costs)),
              StartsWith("F0 F1 F2 B0 U0 B1 U1 B2 U2 F3"));
  EXPECT_THAT(
      done_by(1, timeline_of(amp(2, 3, {1, 1}, Priority::backward), costs)),
      StartsWith("F0 F1 B0 U0 B1 U1 F2"));
}

TEST(Admissions, AreAtTheBeginUntilAsManyAreInFlight) {
  Admissions<double> admissions;
  EXPECT_EQ(admissions.next(2), 0);
  admissions.did({.op = Op::forward}, 1, 1);
  EXPECT_EQ(admissions.next(1), 0);
  admissions.did({.op = Op::backward}, 2, 5);
  EXPECT_EQ(admissions.next(2), 0) << "one of the first two is left";
  admissions.did({.op = Op::forward}, 1, 6);
  EXPECT_EQ(admissions.next(1), 5);
  admissions.did({.op = Op::update}, 1, 7);
  EXPECT_EQ(admissions.next(1), 5);
}

}  // namespace sluice::amp_test
