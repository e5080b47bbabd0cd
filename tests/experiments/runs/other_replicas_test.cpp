// Runs that are continued with another number of replicas: they take up where
// the batches, the schedules and the epochs of the last ones ended.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::other_replicas_test {

using testing::HasSubstr;

class OtherReplicas : public Program {
 protected:
  /// Runs the config, with `more` on the command line, in the folder `dir`.
  std::string run(const std::string& dir, const std::string& more) {
    const std::string config =
        write("config.toml",
              config_with("blocks = 2\nengine = 'virtual'\nevaluate_every = 0\n"
                          "model = {hidden = [24, 20], dropout = 0.2}\n"
                          "optimizer = {lr = 0.1, momentum = 0.9}\n"));
    const Outcome outcome =
        sluice("run " + config + " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }
  Outcome resume(const std::string& dir, const std::string& more) {
    return sluice("run --resume " + path(dir) + " " + more);
  }
  std::string difference_at(const std::string& left, std::int64_t left_turn,
                            const std::string& right, std::int64_t right_turn) {
    return difference(
        load_weights(checkpoint_folder(path(left) + "/checkpoints", left_turn)),
        load_weights(
            checkpoint_folder(path(right) + "/checkpoints", right_turn)));
  }
};

constexpr const char* kMean = "accumulate.batches={} accumulate.rule=mean ";

TEST_F(OtherReplicas, FewerHaveTheBitsOfFewerBatchesPerUpdate) {
  run("two", "replicas.count=2 turns=4");
  const Outcome one = resume("two", "replicas.count=1 turns=8");
  ASSERT_EQ(one.status, 0) << one.text;
  EXPECT_THAT(one.text, HasSubstr("Replicas: 2 become 1"));
  EXPECT_THAT(one.text, HasSubstr("after 8 batches"));
  run("oracle", fmt::format(kMean, 2) +
                    "turns=12 'timetable=[{turn = 8, accumulate = 1}]'");
  EXPECT_EQ(difference_at("two", 8, "oracle", 12), "");
}

TEST_F(OtherReplicas, MoreHaveTheBitsOfMoreBatchesPerUpdate) {
  run("one", "turns=4");
  // Twice, the second time without a word.
  ASSERT_EQ(resume("one", "replicas.count=2 turns=6").status, 0);
  const Outcome two = resume("one", "turns=8");
  ASSERT_EQ(two.status, 0) << two.text;
  run("oracle", fmt::format(kMean, 1) +
                    "turns=12 'timetable=[{turn = 4, accumulate = 2}]'");
  EXPECT_EQ(difference_at("one", 8, "oracle", 12), "");
}

TEST_F(OtherReplicas, MayChangeAgainAndAgain) {
  run("run", "replicas.count=2 turns=3");
  ASSERT_EQ(resume("run", "replicas.count=3 turns=5").status, 0);
  ASSERT_EQ(resume("run", "replicas.count=1 turns=7").status, 0);
  run("oracle", fmt::format(kMean, 2) +
                    "turns=14 'timetable=[{turn = 6, accumulate = 3}, "
                    "{turn = 12, accumulate = 1}]'");
  EXPECT_EQ(difference_at("run", 7, "oracle", 14), "");
}

TEST_F(OtherReplicas, ReplicasOfAnOlderCheckpointTakeUpWhereThatEnded) {
  run("run",
      "replicas.count=2 turns=2 checkpoint.keep=10 "
      "checkpoint.every_turns=2");
  ASSERT_EQ(resume("run", "replicas.count=1 turns=6").status, 0);
  for (const std::int64_t turn : {4, 6})
    remove_checkpoint(checkpoint_folder(path("run") + "/checkpoints", turn));
  ASSERT_EQ(resume("run", "turns=6").status, 0);
  run("oracle", fmt::format(kMean, 2) +
                    "turns=8 'timetable=[{turn = 4, accumulate = 1}]'");
  EXPECT_EQ(difference_at("run", 6, "oracle", 8), "");
}

TEST_F(OtherReplicas, EndWithTheSameEpochAndFollowTheSameSchedule) {
  const std::string cosine =
      "turns=0 epochs=4 evaluate_every=1 log_every=1 "
      "'optimizer={lr = 0.1, schedule = {name = \"cosine\"}}' ";
  // 10 batches an epoch: 5 turns of two replicas.
  run("run", cosine + "replicas.count=2 epochs=2");
  const Outcome outcome = resume("run", "replicas.count=1 epochs=4");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto evaluations = records_of(path("run"), "evaluation");
  ASSERT_FALSE(evaluations.empty());
  EXPECT_EQ(evaluations.back().number("epoch", 0), 4);
  EXPECT_EQ(evaluations.back().number("turn", 0), 30);
  for (const Record& record : records_of(path("run"), "train"))
    if (record.number("turn", 0) == 10) {  // half of the way
      EXPECT_NEAR(record.number("lr", 0), 0.05, 1e-9);
    }
}

TEST_F(OtherReplicas, HaveAScaledRateWhereTheConfigAsksForIt) {
  run("run", "log_every=1 optimizer.lr_for_batch=24 turns=2");
  ASSERT_EQ(resume("run", "replicas.count=4 turns=3").status, 0);
  for (const Record& record : records_of(path("run"), "train"))
    EXPECT_DOUBLE_EQ(record.number("lr", 0),
                     record.number("turn", 0) < 2 ? 0.1 : 0.4);
}

/// A step of theirs is by their own batch, however many there are.
TEST_F(OtherReplicas, WithWeightsOfTheirOwnHaveTheRateOfTheirOwnBatch) {
  run("run",
      "log_every=1 optimizer.lr_for_batch=24 turns=2 "
      "'replicas={policy = \"average\", count = 2}'");
  for (const Record& record : records_of(path("run"), "train"))
    EXPECT_DOUBLE_EQ(record.number("lr", 0), 0.1);
}

TEST_F(OtherReplicas, ReplicasOfAnAverageBeginWithIt) {
  const std::string average = "'replicas={policy = \"average\", every = 2, ";
  run("run", average + "count = 2}' turns=4");
  const Outcome three = resume("run", "replicas.count=3 turns=8");
  EXPECT_EQ(three.status, 0) << three.text;
  run("begun", average + "count = 3}' turns=4 initial_weights=" + path("run") +
                   "/checkpoints/turn-000008");
  EXPECT_EQ(resume("run", "replicas.count=1 turns=9").status, 0);
}

// (w + w + w) / 3 has other bits than w.
TEST_F(OtherReplicas, ReplicasOfEqualWeightsSaveThoseBitsAtTurnZero) {
  const std::string first = "turns=1 checkpoint.initial=true ";
  run("one", first);
  for (const char* policy : {"average", "gossip", "elastic"}) {
    run(policy, first + "'replicas={count = 3, policy = \"" + policy + "\"}'");
    EXPECT_EQ(difference_at(policy, 0, "one", 0), "") << policy;
  }
}

/// Residuals, and the momentum of dgc, are each replica's own.
TEST_F(OtherReplicas, SayWhatCompressedGradientsLeaveBehind) {
  run("plain", "replicas.count=2 turns=2");
  run("run", "'replicas={count = 2, compress = \"top_k\"}' turns=2");
  const Outcome plain = resume("plain", "replicas.count=3 turns=3");
  const Outcome three = resume("run", "replicas.count=3 turns=3");
  EXPECT_EQ(three.status, 0) << three.text;
  EXPECT_THAT(three.text, HasSubstr("compress = 'top_k' has kept"));
  EXPECT_THAT(plain.text, testing::Not(HasSubstr("left behind")));
}

TEST_F(OtherReplicas, TakeTheBatchesOfTheCheckpointWhateverTheConfigSays) {
  run("run", "replicas.count=2 turns=2");
  ASSERT_EQ(resume("run", "replicas.count=1 turns=4").status, 0);
  // A table that is given whole has no `since`, and another is wrong.
  ASSERT_EQ(resume("run", "'replicas={count = 1}' turns=6").status, 0);
  ASSERT_EQ(
      resume("run", "'replicas.since={turn = 1, batches = 1}' turns=8").status,
      0);
  run("oracle", fmt::format(kMean, 2) +
                    "turns=10 'timetable=[{turn = 4, accumulate = 1}]'");
  EXPECT_EQ(difference_at("run", 8, "oracle", 10), "");
  const Outcome begun =
      sluice("run " + path("run/config.toml") + " --dir " + path("begun"));
  EXPECT_EQ(begun.status, 2);
  EXPECT_THAT(begun.text, HasSubstr("leave it out"));
}

TEST_F(OtherReplicas, ThatAreKilledBeforeTheySaveCanGoOn) {
  run("run", "replicas.count=2 turns=2");
  const Outcome killed = resume("run",
                                "replicas.count=1 turns=6 engine=processes "
                                "--inject 'kill block 1 @ turn 3'");
  EXPECT_EQ(killed.status, 1) << killed.text;
  ASSERT_EQ(resume("run", "turns=6 engine=virtual").status, 0);
  run("oracle", fmt::format(kMean, 2) +
                    "turns=8 'timetable=[{turn = 4, accumulate = 1}]'");
  EXPECT_EQ(difference_at("run", 6, "oracle", 8), "");
}

TEST_F(OtherReplicas, AreRefusedWhereTheyWouldLoseSomething) {
  const std::string delayed = "boundary.policy=delayed_gradient ";
  run("flight", delayed + "replicas.count=2 turns=4 drain=false");
  const Outcome in_flight = resume("flight", "replicas.count=1 turns=8");
  EXPECT_EQ(in_flight.status, 2);
  EXPECT_THAT(in_flight.text, HasSubstr("checkpoint RUN --drain"));
  run("shards",
      "optimizer.name=adamw replicas.count=2 replicas.shard=true "
      "turns=4");
  const Outcome shards = resume("shards", "replicas.count=3 turns=8");
  EXPECT_EQ(shards.status, 2);
  EXPECT_THAT(shards.text, HasSubstr("begin a run with initial_weights"));
}

}  // namespace sluice::other_replicas_test
