// Epochs as batches trained on over the batches of the split, and what happens
// every so many of them.
#include "lib/schedules/plan/epochs.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::epochs_test {

std::vector<std::int64_t> turns_of(const Rhythm& rhythm, std::int64_t end) {
  std::vector<std::int64_t> found;
  for (std::int64_t turn = 1; turn <= end; ++turn)
    if (rhythm.is_at(turn)) found.push_back(turn);
  return found;
}

using Turns = std::vector<std::int64_t>;

// 410 samples in 7 batches, of which 4 replicas train on 4 a turn: an epoch of
// 7 / 4 turns, not one of 1.
TEST(Epochs, EpochsOfReplicasAreBatchesTrainedOnOverThoseOfTheSplit) {
  const Epochs epochs{.batches = 7, .deals = {.replicas = 4}};
  EXPECT_EQ(epochs.at(0), 0);
  EXPECT_DOUBLE_EQ(epochs.at(1), 4.0 / 7);
  EXPECT_EQ(epochs.at(7), 4);
  const Rhythm each{.every = 7, .deals = epochs.deals};
  EXPECT_EQ(turns_of(each, 7), (Turns{2, 4, 6, 7}));
}

TEST(Epochs, EpochsOfOneReplicaAreItsTurns) {
  const Rhythm each{.every = 10};
  EXPECT_EQ(turns_of(each, 35), (Turns{10, 20, 30}));
  EXPECT_EQ(Epochs{.batches = 10}.at(35), 3.5);
}

TEST(Rhythm, HappensOnceAtATurnThatReachesItSeveralTimes) {
  const Rhythm often{.every = 2, .deals = {.replicas = 5}};
  EXPECT_EQ(turns_of(often, 3), (Turns{1, 2, 3}));
}

TEST(Rhythm, NeverHappensWithoutANumber) {
  EXPECT_EQ(turns_of({}, 20), Turns{});
  EXPECT_EQ(Rhythm{}.next_after(3, 20), 20);
}

/// next_after() and is_at() must say the same, also in a run whose number of
/// replicas has changed.
TEST(Rhythm, ComesNextWhereItIs) {
  for (const Deals& deals :
       {Deals{}, Deals{.replicas = 3},
        Deals{.replicas = 2, .since_turn = 5, .since_deal = 20},
        Deals{.replicas = 4, .since_turn = 9, .since_deal = 9}})
    for (const std::int64_t every : {1, 3, 7, 10}) {
      const Rhythm rhythm{.every = every, .deals = deals};
      for (std::int64_t turn = deals.since_turn; turn < 30; ++turn) {
        std::int64_t next = turn + 1;
        while (!rhythm.is_at(next)) ++next;
        EXPECT_EQ(rhythm.next_after(turn, 1000), next)
            << every << " after " << turn << ", R = " << deals.replicas;
      }
    }
}

TEST(Rhythm, GoesOnByTheBatchesThatReplicasOfAnotherNumberHadTrainedOn) {
  // 5 turns of 4 replicas, then turns of 2: 20 batches, 22, 24, ...
  const Rhythm rhythm{
      .every = 7, .deals = {.replicas = 2, .since_turn = 5, .since_deal = 20}};
  EXPECT_EQ(turns_of(rhythm, 13), (Turns{2, 4, 6, 9, 13}));
}

}  // namespace sluice::epochs_test
