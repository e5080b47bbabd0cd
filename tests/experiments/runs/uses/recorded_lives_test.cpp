// What a record says of replicas that join a run, and that it loses.
#include "experiments/runs/uses/recorded_lives.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice::recorded_lives_test {

using records::CentreLoss;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunPlan plan_of(int replicas, int quorum) {
  RunPlan plan;
  plan.replicas = replicas;
  for (int r = 1; r <= replicas; ++r) {
    BlockPlan block{.block = 1, .replica = r, .seats_before = r - 1};
    block.exchange.what = ExchangedTensors::gradients;
    block.exchange.members = replicas;
    block.exchange.agrees = true;
    block.exchange.served = true;
    block.exchange.quorum.least = quorum;
    plan.blocks.push_back(block);
  }
  return plan;
}

/// Lines of a block of several replicas, to the checkpoint of turn 4, and what
/// else the run says of them.
struct Recorded {
  std::vector<std::string> lines = {};
  std::set<int> lost = {};
  std::vector<CentreLoss> losses = {};
  int quorum = 0;
  int started = 0;  ///< 0: all
};

struct LivesRead {
  std::vector<std::string> lines;
  std::set<int> later;
  std::set<int> lost;
  std::vector<RecordedLoss> losses;
};

LivesRead read(const Recorded& recorded) {
  const int replicas = static_cast<int>(recorded.lines.size());
  const RunPlan plan = plan_of(replicas, recorded.quorum);
  RecordedLives::Schedule schedule;
  for (const std::string& line : recorded.lines)
    schedule.push_back(actions_from_text(line, ExchangeKind::push));
  const RecordedLives lives(
      plan, schedule,
      {.last = 4,
       .started = recorded.started == 0 ? replicas : recorded.started,
       .lost = recorded.lost,
       .losses = recorded.losses},
      "run");
  LivesRead read{.lines = {},
                 .later = lives.later(),
                 .lost = lives.lost(),
                 .losses = lives.losses()};
  for (const std::vector<Action>& actions : schedule)
    read.lines.push_back(to_text(actions));
  return read;
}

/// A loss of block 1, before the rest of turn 4.
CentreLoss loss_of(int replica, std::int64_t place, std::int64_t served,
                   std::int64_t merged = 0) {
  return {.turn = 3,
          .block = 1,
          .replica = replica,
          .place = place,
          .served = served,
          .merged = merged};
}

/// The line of replica 2, which was lost so.
std::string second(const std::string& line, const CentreLoss& loss,
                   int quorum = 0) {
  return read({.lines = {"X0 S0<1 X2.1 S2.1 X4.1 S4.1 C4", line},
               .lost = {2},
               .losses = {loss},
               .quorum = quorum})
      .lines[1];
}

TEST(RecordedLives, KnowWhoJoinedAndWhoWasLost) {
  const LivesRead lives =
      read({.lines = {"X0 S0<1 X4.1 S4.1 C4", "X1 S1<2",
                      "X2.8 S2.8<3 X4.1 S4.1 C4", "X4.1 S4.1 C4"},
            .lost = {2, 4},
            .losses = {loss_of(2, 2, 2)}});
  EXPECT_THAT(lives.later, IsEmpty()) << "it is at the first rest";
  EXPECT_THAT(lives.lost, ElementsAre(2)) << "another came back before the end";
}

TEST(RecordedLives, KnowAfterWhichRestAReplicaJoined) {
  const LivesRead lives = read(
      {.lines = {"X2.1 S2.1 C2 X4.1 S4.1 C4", "X3.8 S3.8<3 X4.1 S4.1 C4"}});
  EXPECT_THAT(lives.later, ElementsAre(2));
}

TEST(RecordedLives, KnowWhoNeverCame) {
  const LivesRead lives =
      read({.lines = {"X4.1 S4.1 C4", "X4.1 S4.1 C4", ""}, .started = 2});
  EXPECT_THAT(lives.later, ElementsAre(3));
  EXPECT_THAT(lives.lost, ElementsAre(3));
}

TEST(RecordedLives, HaveTheLastPushThatTheCentreServed) {
  EXPECT_EQ(second("F1 B1 X1", loss_of(2, 5, 2)), "F1 B1 X1 S1<2");
  EXPECT_EQ(second("F1 B1 X1", loss_of(2, 5, 0)), "F1 B1");
  EXPECT_EQ(second("X1 S1<2 F2 B2 X2", loss_of(2, 5, 4)),
            "X1 S1<2 F2 B2 X2 S2<4");
  EXPECT_EQ(second("X1 S1<2 F2 B2 X2", loss_of(2, 5, 2)), "X1 S1<2 F2 B2");
}

TEST(RecordedLives, HaveTheMergeOfWhatTheyBroughtToAQuorum) {
  EXPECT_EQ(second("X1", loss_of(2, 5, 2, 3), 2), "X1 S1<2 S1.5<3");
  EXPECT_EQ(second("X1 S1<2", loss_of(2, 5, 2, 3), 2), "X1 S1<2 S1.5<3");
  EXPECT_EQ(second("X1 S1<2 S1.5<3", loss_of(2, 5, 2, 3), 2), "X1 S1<2 S1.5<3");
  EXPECT_EQ(second("X1 S1<2", loss_of(2, 5, 2), 2), "X1 S1<2")
      << "it still waited";
}

TEST(RecordedLives, KnowWhatTheCentreDropped) {
  const LivesRead lives =
      read({.lines = {"X0 S0<1 X4.1 S4.1 C4", "X1 S1<2", "X1 S1<3"},
            .lost = {2, 3},
            .losses = {loss_of(2, 3, 2), loss_of(3, 4, 3, 4)},
            .quorum = 2});
  EXPECT_TRUE(lives.losses[0].is_dropped);
  EXPECT_FALSE(lives.losses[1].is_dropped);
}

TEST(RecordedLives, AreOfARestWhereTheyHadComeToIt) {
  CentreLoss loss = loss_of(2, 3, 2);
  EXPECT_EQ(second("X1 S1<2 X4.1", loss), "X1 S1<2");
  loss.rests = 1;
  EXPECT_EQ(second("X1 S1<2 X4.1", loss), "X1 S1<2 X4.1");
  EXPECT_EQ(second("X1 S1<2 X2.1", loss_of(2, 3, 2)), "X1 S1<2 X2.1")
      << "it was lost after that rest";
}

TEST(RecordedLives, AreSeveralWhereAPlaceIsTakenAgain) {
  const LivesRead lives =
      read({.lines = {"X0 S0<1 X2.1 S2.1 X2 S2<4 X4.1 S4.1 C4",
                      "F1 B1 X1 S1<2 F2 B2 X2 X2.8 S2.8<5 X4.1 S4.1 C4"},
            .lost = {2},
            .losses = {loss_of(2, 3, 3)}});
  EXPECT_THAT(lives.lost, IsEmpty()) << "another is there at the end";
  EXPECT_THAT(lives.later, IsEmpty());
  EXPECT_EQ(lives.lines[1],
            "F1 B1 X1 S1<2 F2 B2 X2 S2<3 X2.8 S2.8<5 X4.1 S4.1 C4");
  EXPECT_EQ(lives.losses[0].life, 0);
}

// The first loss is of one that joined and said nothing.
TEST(RecordedLives, AreLeftAloneByLossesOfThoseWhoDidNothing) {
  const LivesRead lives = read(
      {.lines = {"X0 S0<1 X2.1 S2.1 X2 S2<4 X4.1 S4.1 C4", "X2.8 S2.8<3 X3"},
       .lost = {2},
       .losses = {loss_of(2, 2, 0), loss_of(2, 5, 5)},
       .started = 1});
  EXPECT_EQ(lives.lines[1], "X2.8 S2.8<3 X3 S3<5");
  EXPECT_EQ(lives.losses[0].life, -1);
  EXPECT_EQ(lives.losses[1].life, 1) << "it had joined once";
}

TEST(RecordedLives, HaveDoneNothingWhereTheirEntryDidNotComeToTheCentre) {
  const LivesRead lives =
      read({.lines = {"X0 S0<1 X2.1 S2.1 X2 S2<4 X4.1 S4.1 C4",
                      "X2.8 X3.8 S3.8<3 X3"},
            .lost = {2},
            .losses = {loss_of(2, 2, 0), loss_of(2, 5, 5)},
            .started = 1});
  EXPECT_EQ(lives.lines[1], "X3.8 S3.8<3 X3 S3<5");
  EXPECT_EQ(lives.losses[0].life, -1);
  EXPECT_EQ(lives.losses[1].life, 1);
}

// The centre of a run that was continued knows what it has served since.
TEST(RecordedLives, AreKnownWhereTheyWereLostSoonAfterACheckpoint) {
  EXPECT_EQ(second("X1 S1<2 X2.1 S2.1 C2 X2", loss_of(2, 5, 0)),
            "X1 S1<2 X2.1 S2.1 C2");
}

TEST(RecordedLives, AreRefusedWhereTheCentreSaidNothing) {
  const auto read_unsaid = [](const std::string& line) {
    try {
      return read({.lines = {"X0 S0<1 X4.1 S4.1 C4", line}, .lost = {2}})
          .lines[1];
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(read_unsaid("X1"),
              HasSubstr("run: replica 2 was lost, and nothing records what the "
                        "centre of block 1 had served it by then"));
  EXPECT_EQ(read_unsaid("X4.1 S4.1 X5"), "X4.1 S4.1")
      << "what was after the last rest changed nothing";
}

/// Two blocks of two replicas, of which the second is lost.
TEST(RecordedLives, EndBeforeAnActionWhoseMessageNeverCame) {
  const RunPlan plan = with_replicas(
      make_free_plan({Traits{}}), 2,
      {.what = ExchangedTensors::gradients, .agrees = true, .served = true},
      false, Dealing::arrival);
  const auto read_back = [&](const char* lower, const char* upper,
                             const std::vector<CentreLoss>& losses) {
    RecordedLives::Schedule schedule;
    for (const char* line :
         {"F0 X4.1 S4.1 C4", "F0 X4.1 S4.1 C4", lower, upper})
      schedule.push_back(actions_from_text(line, ExchangeKind::push));
    RecordedLives::RunFacts facts{.last = 4, .started = 2, .lost = {2}};
    for (CentreLoss loss : losses)
      for (const int block : {1, 2}) {
        loss.block = block;
        facts.losses.push_back(loss);
      }
    const RecordedLives lives(plan, schedule, facts, "run");
    return to_text(schedule[2]) + ", " + to_text(schedule[3]);
  };
  const CentreLoss loss = loss_of(2, 3, 0);
  EXPECT_EQ(read_back("F1 B1 U1 F7", "F1 B1 U1 F2", {loss}),
            "F1 B1 U1 F7, F1 B1 U1");
  EXPECT_EQ(read_back("F1 B1 U1 F7", "F1 B1 U1 F7", {loss}),
            "F1 B1 U1 F7, F1 B1 U1 F7");
  EXPECT_EQ(read_back("F1 B1", "F1", {loss}), "F1, F1");
  EXPECT_EQ(read_back("F1 B1 X2.8 S2.8<1 F1", "F1 B1 X2.8 S2.8<1 F1",
                      {loss_of(2, 0, 0), loss_of(2, 1, 1)}),
            "F1 B1 X2.8 S2.8<1 F1, F1 B1 X2.8 S2.8<1 F1");
}

TEST(RecordedLives, AreRefusedWhereAReplicaCameBackWithACheckpoint) {
  try {
    read({.lines = {"X0 S0<1 X4.1 S4.1 C4", "X1 S1<2 C4"}, .lost = {2}});
    FAIL() << "it was read";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("run: replica 2 was lost, and came back where the "
                          "run was continued after turn 4"));
  }
}

TEST(LossAtACentre, ComesBeforeWhatWasServedAfterIt) {
  const auto settle = [](ExchangeKind kind, std::int64_t place) {
    return Action{.op = Op::settle, .batch = 4, .arrived = place, .kind = kind};
  };
  RecordedLoss loss{.place = 5, .served = 3, .is_dropped = true, .rest = 4};
  EXPECT_TRUE(is_before(loss, settle(ExchangeKind::push, 6)));
  EXPECT_FALSE(is_before(loss, settle(ExchangeKind::push, 5)));
  EXPECT_TRUE(is_before(loss, settle(ExchangeKind::pull, 5)))
      << "it still waited";
  EXPECT_TRUE(is_before(loss, settle(ExchangeKind::agreement, 0)));
  loss.is_dropped = false;
  EXPECT_FALSE(is_before(loss, settle(ExchangeKind::pull, 5)));
  loss.rest = 5;
  EXPECT_FALSE(is_before(loss, settle(ExchangeKind::agreement, 0)));
}

}  // namespace sluice::recorded_lives_test
