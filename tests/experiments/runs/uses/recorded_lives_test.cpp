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

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunPlan plan_of(int replicas, int quorum = 0) {
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

struct LivesRead {
  RecordedLives::Schedule schedule;
  std::set<int> later;
  std::set<int> lost;
  std::set<int> were_lost;
  std::vector<std::int64_t> losses;  // places
};

/// lines: of a block of several replicas, to the checkpoint of turn 4. lost:
/// those that the run says it has lost.
LivesRead read(const std::vector<std::string>& lines, const std::set<int>& lost,
               int quorum = 0, int started = 0, bool counts_losses = false) {
  if (started == 0) started = static_cast<int>(lines.size());
  const RunPlan plan = plan_of(static_cast<int>(lines.size()), quorum);
  LivesRead read;
  for (const std::string& line : lines)
    read.schedule.push_back(actions_from_text(line, ExchangeKind::push));
  const RecordedLives lives(plan, read.schedule,
                            {.last = 4,
                             .started = started,
                             .lost = lost,
                             .counts_losses = counts_losses},
                            "run");
  read.later = lives.later();
  read.lost = lives.lost();
  for (int replica = 1; replica <= plan.replicas; ++replica)
    if (lives.was_lost(replica)) read.were_lost.insert(replica);
  for (const RecordedLoss& loss : lives.losses())
    read.losses.push_back(loss.place);
  return read;
}

std::string refusal(const std::vector<std::string>& lines, int quorum = 0,
                    bool counts_losses = false) {
  try {
    read(lines, {2, 3}, quorum, 0, counts_losses);
  } catch (const UserError& error) {
    return error.what();
  }
  return "read";
}

TEST(RecordedLives, KnowWhoJoinedAndWhoWasLost) {
  const LivesRead lives = read({"X0 S0<1 X4.1 S4.1 C4", "X1 S1<2",
                                "X2.8 S2.8<3 X4.1 S4.1 C4", "X4.1 S4.1 C4"},
                               {2, 4});
  EXPECT_THAT(lives.later, IsEmpty()) << "it is at the first rest";
  EXPECT_THAT(lives.lost, ElementsAre(2)) << "another came back before the end";
}

TEST(RecordedLives, KnowAfterWhichRestAReplicaJoined) {
  const LivesRead lives =
      read({"X2.1 S2.1 C2 X4.1 S4.1 C4", "X3.8 S3.8<3 X4.1 S4.1 C4"}, {});
  EXPECT_THAT(lives.later, ElementsAre(2));
}

TEST(RecordedLives, KnowWhoNeverCame) {
  const LivesRead lives = read({"X4.1 S4.1 C4", "X4.1 S4.1 C4", ""}, {}, 0, 2);
  EXPECT_THAT(lives.later, ElementsAre(3));
  EXPECT_THAT(lives.lost, ElementsAre(3));
}

TEST(RecordedLives, AreServedWhereNoOtherHasThatPlace) {
  const LivesRead lives =
      read({"X0 S0<1 X2 S2<3 X4.1 S4.1 C4", "F1 B1 X1"}, {2});
  EXPECT_EQ(to_text(lives.schedule[1]), "F1 B1 X1 S1<2");
}

TEST(RecordedLives, LeaveOutWhatWasNotServed) {
  const LivesRead lives =
      read({"X0 S0<1 X2 S2<2 X4.1 S4.1 C4", "F1 B1 X1"}, {2});
  EXPECT_EQ(to_text(lives.schedule[1]), "F1 B1");
  EXPECT_THAT(lives.later, IsEmpty());
}

TEST(RecordedLives, AreRefusedWhereTheOthersDoNotSayWhatBecameOfThem) {
  const char* first = "X0 S0<1 X2 S2<3 X4.1 S4.1 C4";
  EXPECT_THAT(refusal({first, "X1", "X3"}), HasSubstr("lost while it waited"));
  EXPECT_THAT(refusal({"X0 S0<1 X2 S2<4 X4.1 S4.1 C4", "X1"}),
              HasSubstr("lost while it waited"));
  EXPECT_THAT(refusal({first, "X1 S1<2"}, 2),
              HasSubstr("lost while it waited"));
  EXPECT_EQ(refusal({first, "X1 S1<2"}), "read");
}

TEST(RecordedLives, AreSeveralWhereAPlaceIsTakenAgain) {
  const LivesRead lives =
      read({"X0 S0<1 X2.1 S2.1 X2 S2<4 X4.1 S4.1 C4",
            "F1 B1 X1 S1<2 F2 B2 X2 X2.8 S2.8<5 X4.1 S4.1 C4"},
           {2});
  EXPECT_THAT(lives.lost, IsEmpty()) << "another is there at the end";
  EXPECT_THAT(lives.were_lost, ElementsAre(2));
  EXPECT_THAT(lives.later, IsEmpty());
  EXPECT_EQ(to_text(lives.schedule[1]),
            "F1 B1 X1 S1<2 F2 B2 X2 S2<3 X2.8 S2.8<5 X4.1 S4.1 C4")
      << "the centre had served it";
}

// One was lost before the rest of turn 2, and the other after it.
TEST(RecordedLives, AreGivenThePlacesThatNoOtherCanHave) {
  const LivesRead lives = read(
      {"X0 S0<1 X1 S1<3 X2.1 S2.1 X2 S2<5 X4.1 S4.1 C4", "X1", "X2.1 S2.1 X2"},
      {2, 3});
  EXPECT_EQ(to_text(lives.schedule[1]), "X1 S1<2");
  EXPECT_EQ(to_text(lives.schedule[2]), "X2.1 S2.1 X2 S2<4");
  EXPECT_THAT(refusal({"X0 S0<1 X2 S2<3 X4.1 S4.1 C4", "X1", "X1"}),
              HasSubstr("nothing records whether that took"))
      << "one of them, and which one?";
}

/// Two blocks of two replicas, of which the second is lost.
TEST(RecordedLives, EndBeforeAnActionWhoseMessageNeverCame) {
  const RunPlan plan = with_replicas(
      make_free_plan({Traits{}}), 2,
      {.what = ExchangedTensors::gradients, .agrees = true, .served = true},
      false, Dealing::arrival);
  const auto read_back = [&](const char* lower, const char* upper) {
    RecordedLives::Schedule schedule;
    for (const char* line :
         {"F0 X4.1 S4.1 C4", "F0 X4.1 S4.1 C4", lower, upper})
      schedule.push_back(actions_from_text(line, ExchangeKind::push));
    const RecordedLives lives(plan, schedule,
                              {.last = 4, .started = 2, .lost = {2}}, "run");
    return to_text(schedule[2]) + ", " + to_text(schedule[3]);
  };
  EXPECT_EQ(read_back("F1 B1 U1 F7", "F1 B1 U1 F2"), "F1 B1 U1 F7, F1 B1 U1");
  EXPECT_EQ(read_back("F1 B1 U1 F7", "F1 B1 U1 F7"),
            "F1 B1 U1 F7, F1 B1 U1 F7");
  EXPECT_EQ(read_back("F1 B1", "F1"), "F1, F1");
  EXPECT_EQ(read_back("F1 B1 X2.8 S2.8<1 F1", "F1 B1 X2.8 S2.8<1 F1"),
            "F1 B1 X2.8 S2.8<1 F1, F1 B1 X2.8 S2.8<1 F1");
}

TEST(RecordedLives, HaveThePlaceOfALossWhereACentreCountsThem) {
  const auto counted = [](const std::vector<std::string>& lines) {
    return read(lines, {2}, 0, 0, true);
  };
  const char* first = "X0 S0<1 X1 S1<3 X2.1 S2.1 X2 S2<6 X4.1 S4.1 C4";
  EXPECT_THAT(counted({first, "X1 S1<2 X2 S2<4"}).losses, ElementsAre(5));
  const LivesRead served = counted({first, "X1 S1<2 X2.1 S2.1 X2"});
  EXPECT_THAT(served.losses, ElementsAre(5));
  EXPECT_EQ(to_text(served.schedule[1]), "X1 S1<2 X2.1 S2.1 X2 S2<4");
  EXPECT_THAT(counted({"X0 S0<1 X4.1 S4.1 C4", "X1 S1<2 F3"}).losses, IsEmpty())
      << "nothing came after it";
  EXPECT_THAT(refusal({"X0 S0<1 X1 S1<2 X2.1 S2.1 X3 S3<3 X4.1 S4.1 C4", "F1"},
                      0, true),
              HasSubstr("nothing records since when the others mixed"));
  EXPECT_THAT(refusal({"X0 S0<1 X1 S1<3 X4.1 S4.1 C4", "X1"}, 0, true),
              HasSubstr("nothing records whether that took"))
      << "2 is its push, or its loss";
}

// The block above one that has forwarded its first batch, for instance.
TEST(RecordedLives, HaveThePlaceOfALossOfOneThatHadDoneNothing) {
  const std::vector<std::string> lines = {
      "X0 S0<1 X1 S1<3 X2 S2<4 X4.1 S4.1 C4", ""};
  EXPECT_THAT(read(lines, {2}, 0, 0, true).losses, ElementsAre(2));
  EXPECT_THAT(read(lines, {2}).losses, IsEmpty());
  EXPECT_THAT(read({"X0 S0<1 X1 S1<2 X4.1 S4.1 C4", ""}, {}, 0, 1, true).losses,
              IsEmpty())
      << "it never came";
}

TEST(RecordedLives, AreRefusedWhereAReplicaCameBackWithACheckpoint) {
  EXPECT_THAT(refusal({"X0 S0<1 X4.1 S4.1 C4", "X1 S1<2 C4"}),
              HasSubstr("run: replica 2 was lost, and came back where the run "
                        "was continued after turn 4"));
}

}  // namespace sluice::recorded_lives_test
