#include "lib/engines/coordinator.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/metrics/clock_offset.h"
#include "lib/metrics/records.h"

namespace sluice::coordinator_test {

/// All grants of a run whose only block carries each out at once.
std::vector<Grant> grants_of(const RunLength& length) {
  Coordinator coordinator(length, 1, nullptr, nullptr);
  std::vector<Grant> grants;
  while (true) {
    const Coordinator::CoordinatorReply asked = coordinator.ask(grants.size());
    if (asked.answer == Coordinator::Answer::over) return grants;
    coordinator.reached(1, grants.size());
    grants.push_back(asked.grant);
  }
}

Record evaluation(double accuracy) {
  return records::Evaluation{.accuracy = accuracy};
}

TEST(Coordinator, GrantsEveryTurnOnce) {
  std::int64_t next = 0;
  for (const Grant& grant :
       grants_of({.turns = 1000, .evaluate_every = {70}})) {
    EXPECT_EQ(grant.first_turn, next);
    next = grant.end_turn;
  }
  EXPECT_EQ(next, 1000);
}

TEST(Coordinator, EvaluatesWhereItShouldAndAtTheEnd) {
  std::vector<std::int64_t> turns;
  for (const Grant& grant : grants_of(
           {.turns = 100, .evaluate_every = {40}, .evaluation_batches = 3}))
    if (grant.evaluation_batches == 3) turns.push_back(grant.end_turn);
  EXPECT_EQ(turns, (std::vector<std::int64_t>{40, 80, 100}));
}

TEST(Coordinator, DrainsAndFinishesInTheLastGrantOnly) {
  const std::vector<Grant> grants = grants_of({.turns = 100});
  EXPECT_TRUE(grants.back().finish && grants.back().drain &&
              grants.back().checkpoint);
  EXPECT_FALSE(grants.front().finish || grants.front().drain);
}

TEST(Coordinator, BeginsWithAGrantOfNoTurns) {
  EXPECT_EQ(grants_of({.turns = 10}).front(), Grant{});
}

TEST(Coordinator, SavesTheFirstWeightsWhenAsked) {
  const Grant first =
      grants_of({.turns = 10, .initial_checkpoint = true}).front();
  EXPECT_EQ(first, (Grant{.checkpoint = true}));
}

TEST(Coordinator, SavesATurnOnceOnly) {
  int saved = 0;
  for (const Grant& grant : grants_of({.turns = 0, .initial_checkpoint = true}))
    saved += grant.checkpoint ? 1 : 0;
  EXPECT_EQ(saved, 1);
}

TEST(Barrier, HoldsTheNextGrantBackUntilAllHaveReachedTheLast) {
  Coordinator coordinator({.turns = 3, .barriers = {Barrier::turn}}, 2, nullptr,
                          nullptr);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(coordinator.ask(n).answer, Coordinator::Answer::granted) << n;
    coordinator.reached(1, n);
    if (n == 3) break;
    EXPECT_EQ(coordinator.ask(n + 1).answer, Coordinator::Answer::later) << n;
    coordinator.reached(2, n);
  }
  EXPECT_EQ(coordinator.ask(3).grant.end_turn, 3);
}

TEST(Barrier, BeforeAReplayPartsEveryTurn) {
  std::string parts;
  for (const Grant& grant :
       grants_of({.turns = 2, .barriers = {Barrier::play_and_replay}}))
    parts +=
        fmt::format("{}-{} {}{}{}, ", grant.first_turn, grant.end_turn,
                    grant.part == TurnPart::play   ? "play"
                    : grant.part == TurnPart::rest ? "rest"
                                                   : "whole",
                    grant.drain ? " drain" : "", grant.finish ? " finish" : "");
  EXPECT_EQ(parts,
            "0-0 whole, 0-1 play, 0-1 rest, 1-2 play, 1-2 rest drain finish, ");
}

TEST(Barrier, IsNoPlaceToStopInsideATurn) {
  Coordinator coordinator({.turns = 9, .barriers = {Barrier::play_and_replay}},
                          1, nullptr, nullptr);
  coordinator.reached(1, (coordinator.ask(0), 0));
  coordinator.reached(1, (coordinator.ask(1), 1));
  coordinator.request_stop();
  EXPECT_EQ(coordinator.ask(2).grant.part, TurnPart::rest);
  coordinator.reached(1, 2);
  EXPECT_TRUE(coordinator.ask(3).grant.finish);
  EXPECT_TRUE(coordinator.interrupted());
}

TEST(Coordinator, DoesNotSaveAgainWhenItStopsWhereItHasJustSaved) {
  Coordinator coordinator({.turns = 100, .checkpoint_every = {10}}, 1, nullptr,
                          nullptr);
  coordinator.ask(0);
  EXPECT_TRUE(coordinator.ask(1).grant.checkpoint);
  coordinator.request_stop();
  const Grant last = coordinator.ask(2).grant;
  EXPECT_EQ(last.end_turn, 10);
  EXPECT_TRUE(last.finish && !last.checkpoint);
}

TEST(Coordinator, StopsAtTheEndOfWhatWasGranted) {
  Coordinator coordinator({.turns = 1000, .evaluation_batches = 3}, 1, nullptr,
                          nullptr);
  coordinator.ask(0);
  const Grant first = coordinator.ask(1).grant;
  coordinator.request_stop();
  const Grant last = coordinator.ask(2).grant;
  EXPECT_EQ(last.first_turn, first.end_turn);
  EXPECT_EQ(last.end_turn, first.end_turn);
  EXPECT_TRUE(last.finish && last.checkpoint);
  EXPECT_FALSE(last.drain) << "what is in flight is to be continued";
  EXPECT_EQ(last.evaluation_batches, 0);
  EXPECT_EQ(coordinator.ask(3).answer, Coordinator::Answer::over);
  EXPECT_TRUE(coordinator.interrupted());
}

TEST(Coordinator, ContinuesAfterTheTurnOfTheCheckpoint) {
  const std::vector<Grant> grants = grants_of({.first_turn = 48,
                                               .turns = 100,
                                               .evaluate_every = {40},
                                               .evaluation_batches = 3});
  EXPECT_EQ(grants.front(), (Grant{.first_turn = 48, .end_turn = 48}));
  std::int64_t next = 48;
  std::vector<std::int64_t> evaluated;
  for (const Grant& grant : grants) {
    EXPECT_EQ(grant.first_turn, next);
    next = grant.end_turn;
    if (grant.evaluation_batches > 0) evaluated.push_back(next);
  }
  EXPECT_EQ(next, 100);
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{80, 100}));
}

TEST(Coordinator, SavesWhatItEvaluatesWhenTheBestIsKept) {
  for (const Grant& grant : grants_of({.turns = 100,
                            .evaluate_every = {40},
                            .evaluation_batches = 3,
                            .checkpoint_evaluations = true}))
    EXPECT_EQ(grant.checkpoint, grant.evaluation_batches > 0);
}

TEST(Coordinator, PausesWhereItWasTold) {
  const auto grants =
      grants_of({.turns = 100, .pause_turn = 20, .evaluate_every = {10}});
  EXPECT_EQ(grants.back().end_turn, 20);
  EXPECT_TRUE(grants.back().checkpoint);
  EXPECT_TRUE(grants.back().finish);
  EXPECT_FALSE(grants.back().drain);
  // Continued, it goes on to its end.
  EXPECT_EQ(grants_of({.first_turn = 20,
                       .turns = 100,
                       .pause_turn = 20,
                       .evaluate_every = {10}})
                .back()
                .end_turn,
            100);
}

const RunLength kStopsEarly = {.turns = 1000,
                               .evaluate_every = {10},
                               .evaluation_batches = 1,
                               .early_stop = {.patience = 2}};

/// Where a run of one block ends whose evaluations give these accuracies.
std::int64_t end_with(const std::vector<double>& accuracies) {
  Coordinator coordinator(kStopsEarly, 1, nullptr, nullptr);
  std::size_t evaluated = 0;
  std::int64_t end = 0;
  for (std::size_t n = 0;; ++n) {
    const auto [answer, grant] = coordinator.ask(n);
    if (answer == Coordinator::Answer::over) return end;
    if (grant.evaluation_batches > 0 && evaluated < accuracies.size())
      coordinator.write(evaluation(accuracies[evaluated++]));
    coordinator.reached(1, n);
    end = grant.end_turn;
  }
}

TEST(Coordinator, StopsEarlyAfterSoManyEvaluationsWithoutProgress) {
  EXPECT_EQ(end_with({0.5, 0.6, 0.6, 0.4, 0.9}), 40);
  EXPECT_EQ(end_with({0.5, 0.4, 0.6, 0.6, 0.5}), 50);
}

TEST(Coordinator, GrantsNothingBeyondAnEvaluationThatMayEndTheRun) {
  Coordinator coordinator(kStopsEarly, 2, nullptr, nullptr);
  coordinator.ask(0);
  EXPECT_EQ(coordinator.ask(1).grant.end_turn, 10);
  EXPECT_EQ(coordinator.ask(2).answer, Coordinator::Answer::later);
  coordinator.reached(1, 1);
  EXPECT_EQ(coordinator.ask(2).answer, Coordinator::Answer::later);
  coordinator.reached(2, 1);
  EXPECT_EQ(coordinator.ask(2).answer, Coordinator::Answer::granted);
}

TEST(Coordinator, FinishesACheckpointWhenAllBlocksHaveSaved) {
  std::vector<std::int64_t> finished;
  Coordinator coordinator({.turns = 5}, 2, nullptr,
                          [&](std::int64_t turn) { finished.push_back(turn); });
  coordinator.ask(0);
  coordinator.ask(1);
  coordinator.reached(1, 1);
  EXPECT_TRUE(finished.empty());
  coordinator.reached(2, 1);
  EXPECT_EQ(finished, std::vector<std::int64_t>{5});
}

TEST(Cause, CauseOfAnErrorIsItsTypeWhateverItsText) {
  EXPECT_EQ(cause_of(PeerGoneError("closed")), Cause::peer_gone);
  EXPECT_EQ(cause_of(LinkError("it is gone")), Cause::link);
  EXPECT_EQ(cause_of(UserError("it is gone")), Cause::own);
}

TEST(ClockExchange, TakesTheQuestionThatWasAnsweredFastest) {
  ClockExchange exchange;
  for (const double took : {0.5, 0.01, 0.3}) {
    exchange.asks(100);
    exchange.hears(107 + 0.75 * took, 100 + took);  // the way there is longer
  }
  EXPECT_NEAR(exchange.best().offset, 7 + 0.0025, 1e-9);
  EXPECT_NEAR(exchange.best().uncertainty, 0.005, 1e-9);
  EXPECT_FALSE(exchange.is_over());
}

}  // namespace sluice::coordinator_test
