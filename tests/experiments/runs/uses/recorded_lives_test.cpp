// What a record says of replicas that join a run, and that it loses.
#include "experiments/runs/uses/recorded_lives.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

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
};

/// lines: of a block of several replicas, to the checkpoint of turn 4. lost:
/// those that the run says it has lost.
LivesRead read(const std::vector<std::string>& lines, const std::set<int>& lost,
               int quorum = 0, int started = 0) {
  if (started == 0) started = static_cast<int>(lines.size());
  const RunPlan plan = plan_of(static_cast<int>(lines.size()), quorum);
  LivesRead read;
  for (const std::string& line : lines)
    read.schedule.push_back(actions_from_text(line, ExchangeKind::push));
  const RecordedLives lives(plan, read.schedule, 4, started, lost, "run");
  read.later = lives.later();
  read.lost = lives.lost();
  return read;
}

std::string refusal(const std::vector<std::string>& lines, int quorum = 0) {
  try {
    read(lines, {2, 3}, quorum);
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

TEST(RecordedLives, AreRefusedWhereAReplicaCameBack) {
  const char* first = "X0 S0<1 X4.1 S4.1 C4";
  for (const char* second : {"X1 S1<2 X2.8 S2.8<3 X4.1 S4.1 C4", "X1 S1<2 C4"})
    EXPECT_THAT(refusal({first, second}),
                HasSubstr("run: another replica 2 took the place"));
}

}  // namespace sluice::recorded_lives_test
