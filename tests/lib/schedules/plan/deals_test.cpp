// Deals of a source to replicas, whose number may have changed on the way.
#include "lib/schedules/plan/deals.h"

#include <gtest/gtest.h>

#include "lib/schedules/plan/micro_batches.h"

namespace sluice {

TEST(Deals, GoOnAfterAnotherNumberOfReplicas) {
  // Two replicas had 10 turns, then four.
  const Deals deals{.replicas = 4, .since_turn = 10, .since_deal = 20};
  EXPECT_EQ(deals.before(10), 20);
  EXPECT_EQ(deals.before(13), 32);
  EXPECT_EQ(deals.turn_after(32), 13);
  EXPECT_EQ(deals.turn_after(35), 13);  // three replicas would have one more
  EXPECT_EQ(deals.turn_after(10), 5);
  EXPECT_EQ(deals.by(10), 20);
  EXPECT_EQ(deals.by(5), 10) << "as many turns as long";
  EXPECT_EQ(deals.turn_with(32), 13);
  EXPECT_EQ(deals.turn_with(33), 14);
  EXPECT_EQ(deals.turn_with(11), 6);
  // Turn 10 would be turn 5, had there always been four.
  EXPECT_EQ(deals.turns_by(10), 5);
}

TEST(Deals, DealsOfAnUnchangedNumberAreThoseOfEachTurn) {
  const Deals deals{.replicas = 3};
  EXPECT_EQ(deals.before(7), 21);
  EXPECT_EQ(deals.turn_after(22), 7);
  EXPECT_EQ(deals.turns_by(7), 7);
}

TEST(Deals, DealsOfAllReplicasAreOneAfterTheOther) {
  MicroBatches second{
      .deals = {.replicas = 2, .since_turn = 5, .since_deal = 5}, .replica = 2};
  EXPECT_EQ(second.deal_of(5), 6);
  EXPECT_EQ(second.deal_of(6), 8);
  EXPECT_EQ(second.source_batch(6), 8);
}

}  // namespace sluice
