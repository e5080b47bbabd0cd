// Batches count by their samples in the mean over replicas.
#include "lib/schedules/plan/sample_weights.h"

#include <gtest/gtest.h>

namespace sluice::sample_weights_test {

/// Replica r of R, epochs of 3 batches: 16, 16 and 5 samples.
MicroBatches of_replica(std::int64_t r, std::int64_t replicas) {
  return {.samples = 16,
          .turns_per_epoch = 3,
          .last_samples = 5,
          .deals = {.replicas = replicas},
          .replica = r};
}

TEST(SampleWeights, CountAShortBatchByItsSamples) {
  for (const std::int64_t turn : {0, 1, 4}) {
    EXPECT_DOUBLE_EQ(weight_in_turn(of_replica(1, 3), turn), 3 * 16.0 / 37);
    EXPECT_DOUBLE_EQ(weight_in_turn(of_replica(2, 3), turn), 3 * 16.0 / 37);
    EXPECT_DOUBLE_EQ(weight_in_turn(of_replica(3, 3), turn), 3 * 5.0 / 37);
  }
}

TEST(SampleWeights, FollowTheShortBatchFromReplicaToReplica) {
  // Two replicas: batches 0 and 1, then 2 (short) and 3, then 4 and 5.
  EXPECT_EQ(weight_in_turn(of_replica(1, 2), 0), 1);
  EXPECT_DOUBLE_EQ(weight_in_turn(of_replica(1, 2), 1), 2 * 5.0 / 21);
  EXPECT_DOUBLE_EQ(weight_in_turn(of_replica(2, 2), 1), 2 * 16.0 / 21);
  EXPECT_DOUBLE_EQ(weight_in_turn(of_replica(2, 2), 2), 2 * 5.0 / 21);
}

TEST(SampleWeights, AreOneWhereAllBatchesAreWhole) {
  MicroBatches whole = of_replica(2, 3);
  whole.last_samples = 16;
  EXPECT_EQ(weight_in_turn(whole, 0), 1);
  EXPECT_EQ(weight_in_turn({}, 5), 1) << "batches that are fed in";
  EXPECT_EQ(weight_in_turn(of_replica(1, 1), 2), 1) << "one replica";
}

TEST(SampleWeights, AddUpToTheNumberOfReplicas) {
  for (const std::int64_t replicas : {2, 3, 4, 7})
    for (std::int64_t turn = 0; turn < 9; ++turn) {
      double sum = 0;
      for (std::int64_t r = 1; r <= replicas; ++r)
        sum += weight_in_turn(of_replica(r, replicas), turn);
      EXPECT_NEAR(sum, static_cast<double>(replicas), 1e-12);
    }
}

TEST(SampleWeights, SampleWeightsOfMicroBatchesAreThoseOfTheirTurn) {
  MicroBatches cut = of_replica(3, 3);
  cut.count = 4;
  for (const std::int64_t batch : {0, 1, 5})
    EXPECT_DOUBLE_EQ(weight_in_turn(cut, batch), 3 * 5.0 / 37) << batch;
}

TEST(SampleWeights, SampleWeightsOfABlockWithFewerReplicasGoByTheBatch) {
  MicroBatches one = of_replica(1, 3);
  one.dealt = 3;  // the three batches of a turn, one after the other
  EXPECT_DOUBLE_EQ(weight_in_turn(one, 3), 3 * 16.0 / 37);
  EXPECT_DOUBLE_EQ(weight_in_turn(one, 5), 3 * 5.0 / 37);
}

}  // namespace sluice::sample_weights_test
