// Schedules of replicas that a centre serves in the order of their arrival.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::served_replicas_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

ReplicaExchange served(ExchangedTensors what, std::int64_t every = 1) {
  return {.what = what,
          .every = every,
          .agrees = true,
          .graph = {.shape = PeerShape::complete},
          .served = true};
}

RunPlan plan_of(int replicas, const ReplicaExchange& exchange) {
  return with_replicas(make_free_plan({}), replicas, exchange);
}

Grant two_turns() {
  Grant grant;
  grant.end_turn = 2;
  grant.drain = true;
  grant.checkpoint = true;
  return grant;
}

/// What a seat does, as text.
std::string line_of(int seat, const std::vector<TimedAction>& timeline) {
  std::vector<Action> actions;
  for (const TimedAction& timed : timeline)
    if (timed.seat == seat) actions.push_back(timed.action);
  return to_text(actions);
}

TEST(ServedReplicas, PushBeforeOrAfterTheirUpdatesAndAgreeAtTheEnd) {
  const auto line = [](const ReplicaExchange& exchange, int seat) {
    const RunPlan plan = plan_of(2, exchange);
    return line_of(seat,
                   simulate(plan, {}, capacities_of(plan, 2), two_turns()));
  };
  for (const ExchangedTensors what :
       {ExchangedTensors::gradients, ExchangedTensors::old_weights})
    for (const int seat : {1, 2})
      EXPECT_EQ(line(served(what), seat),
                "F0 B0 X0 S0 U0 F1 B1 X1 S1 U1 X2.1 S2.1 C2");
  EXPECT_EQ(line(served(ExchangedTensors::weights, 2), 2),
            "F0 B0 U0 F1 B1 U1 X1 S1 X2.1 S2.1 C2");
  EXPECT_EQ(line(served(ExchangedTensors::old_weights, 2), 1),
            "F0 B0 U0 F1 B1 X1 S1 U1 X2.1 S2.1 C2");
}

ReplicaExchange waiting(ExchangedTensors what, const Quorum& quorum) {
  ReplicaExchange exchange = served(what);
  exchange.quorum = quorum;
  return exchange;
}

TEST(WaitingReplicas, TakeWhatWasMergedInASecondSettle) {
  const auto lines = [](ExchangedTensors what) {
    const RunPlan plan = plan_of(2, waiting(what, {.least = 2}));
    const auto timeline =
        simulate(plan, {}, capacities_of(plan, 2), two_turns());
    EXPECT_EQ(line_of(1, timeline), line_of(2, timeline));
    return line_of(1, timeline);
  };
  EXPECT_EQ(lines(ExchangedTensors::gradients),
            "F0 B0 X0 S0 S0.5<2 U0 F1 B1 X1 S1 S1.5<4 U1 X2.1 S2.1 C2");
  EXPECT_EQ(lines(ExchangedTensors::weights),
            "F0 B0 U0 X0 S0 S0.5<2 F1 B1 U1 X1 S1 S1.5<4 X2.1 S2.1 C2");
}

Costs with_a_slow_third(double slowness) {
  Costs costs;
  for (const double each : {1.0, 1.0, slowness})
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = each});
  return costs;
}

TEST(WaitingReplicas, LeaveOutTheTurnsThatOthersHaveMade) {
  const RunPlan plan = plan_of(3, waiting(ExchangedTensors::gradients,
                                          {.least = 2, .drops_late = true}));
  Grant grant = two_turns();
  grant.end_turn = 6;
  // Replica 3 comes after 10.5 s, when the others have made three turns.
  EXPECT_EQ(line_of(3, simulate(plan, with_a_slow_third(3.5),
                                capacities_of(plan, 2), grant)),
            "F0 B0 X0 S0 S0.5<7-1-2 U0 F3 B3 X3 S3 S3.5<14-4-5 U3 X6.1 S6.1 "
            "C6");
}

TEST(WaitingReplicas, MergeTheRestWhereNobodyElseComes) {
  const RunPlan plan =
      plan_of(3, waiting(ExchangedTensors::weights, {.least = 2, .grace = 1}));
  Grant grant;  // no replica rests after it
  grant.end_turn = 1;
  const auto timeline =
      simulate(plan, with_a_slow_third(10), capacities_of(plan, 2), grant);
  EXPECT_EQ(line_of(1, timeline), "F0 B0 U0 X0 S0 S0.5<2");
  EXPECT_EQ(line_of(3, timeline), "F0 B0 U0 X0 S0 S0.5<3");
  for (const TimedAction& timed : timeline)
    if (timed.seat == 2 && timed.action.kind == ExchangeKind::pull) {
      EXPECT_EQ(timed.start, 3 + 1) << "its grace";
    }
}

TEST(ServedReplicas, DontWaitForThoseThatAreSlower) {
  const RunPlan plan = plan_of(2, served(ExchangedTensors::gradients));
  Costs costs;
  for (const double slowness : {1.0, 10.0})
    costs.blocks.push_back({.seconds = {{Op::forward, 1}, {Op::backward, 2}},
                            .slowness = slowness});
  double agreed = 0;
  for (const TimedAction& timed :
       simulate(plan, costs, capacities_of(plan, 2), two_turns())) {
    if (timed.seat == 1 && timed.action.op == Op::update) {
      EXPECT_EQ(timed.end, 3.0 * static_cast<double>(timed.action.batch + 1));
    }
    if (timed.seat == 1 && timed.action.op == Op::save) agreed = timed.end;
  }
  EXPECT_EQ(agreed, 60) << "but for an agreement";
}

std::vector<std::vector<Action>> told(const std::vector<std::string>& lines) {
  std::vector<std::vector<Action>> actions;
  for (const std::string& line : lines)
    actions.push_back(actions_from_text(line, ExchangeKind::push));
  return actions;
}

TEST(ServedReplicas, AreServedAsARecordSays) {
  const RunPlan plan = plan_of(2, served(ExchangedTensors::gradients));
  const std::vector<Capacity> capacities = capacities_of(plan, 2);
  for (const int first : {1, 2}) {
    const auto line = [&](int seat) {
      return std::string("F0 B0 X0 S0<") + (seat == first ? "1" : "2") + " U0";
    };
    std::vector<int> served;
    for (const TimedAction& timed :
         simulate(plan, {}, capacities, told({line(1), line(2)})))
      if (timed.action.op == Op::settle) served.push_back(timed.seat);
    EXPECT_EQ(served, (std::vector<int>{first, 3 - first}));
  }
  EXPECT_THAT(
      [&] {
        simulate(plan, {}, capacities,
                 told({"F0 B0 X0 S0<1 U0", "F0 B0 X0 S0<3 U0"}));
      },
      ThrowsMessage<UserError>(HasSubstr("block 1 of replica 2 (S0<3)")));
}

TEST(ServedReplicas, HaveTheirPlacesInTheText) {
  const Action settle{
      .op = Op::settle, .batch = 3, .arrived = 17, .kind = ExchangeKind::push};
  EXPECT_EQ(to_text(settle), "S3<17");
  EXPECT_EQ(actions_from_text("S3<17", ExchangeKind::push),
            std::vector<Action>{settle});
  for (const char* wrong : {"S3<0", "S3<", "B3<17", "X3<17", "S3<1-2"})
    EXPECT_THROW(actions_from_text(wrong), UserError) << wrong;
}

}  // namespace sluice::served_replicas_test
