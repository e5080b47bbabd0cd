// A replica's process is killed, and those that wait for some of the others
// only, or for none, go on without it.
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/uses/replay.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/lossy_runs.h"
#include "tests/experiments/helpers/process_group.h"

namespace sluice::lost_replica_test {

using testing::HasSubstr;

class LostReplica : public Faults,
                    public testing::WithParamInterface<LossyCase> {};

INSTANTIATE_TEST_SUITE_P(Policies, LostReplica,
                         testing::Values(kBackup, kQuorum, kServer, kGossip),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(LostReplica, AtARandomStepIsLeftOutAndCounted) {
  const LossyCase of = GetParam();
  const unsigned kills = from_environment("SLUICE_QUORUM_KILLS", 3);
  std::mt19937 random(random_seed());
  for (unsigned i = 0; i < kills; ++i) {
    const int seat = std::uniform_int_distribution(
        of.blocks + 1, of.blocks * of.replicas)(random);
    const std::string fault =
        fmt::format("kill block {} @ turn {}", seat,
                    std::uniform_int_distribution(1, 18)(random));
    SCOPED_TRACE(fault);
    const Outcome outcome =
        run("disturbed",
            fmt::format("--overwrite --inject '{}' {}", fault, of.config));
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    const int replica = (seat - 1) / of.blocks + 1;
    EXPECT_THAT(outcome.text,
                HasSubstr(fmt::format("Replica {} is lost (", replica)));
    const std::vector<Record> lost =
        records_of(path("disturbed"), "lost_replica");
    ASSERT_EQ(lost.size(), 1U);
    EXPECT_EQ(lost[0].number("replica", 0), replica);
    EXPECT_GE(lost[0].number("turns_left_out", 0), 1);
    EXPECT_EQ(lost[0].number("turns_left_out", 0) + lost[0].number("turn", -1),
              20);
    EXPECT_TRUE(records_of(path("disturbed"), "restart").empty());
    // The others tell what they have done; an evaluation is of the end.
    std::vector<int> told(static_cast<std::size_t>(of.replicas) + 1, 0);
    for (const Record& block : records_of(path("disturbed"), "block"))
      ++told.at(static_cast<std::size_t>(block.number("replica", 0)));
    for (int r = 1; r <= of.replicas; ++r)
      EXPECT_EQ(told.at(static_cast<std::size_t>(r)),
                r == replica ? 0 : of.blocks)
          << r;
    const std::vector<Record> evaluations =
        records_of(path("disturbed"), "evaluation");
    ASSERT_FALSE(evaluations.empty());
    EXPECT_EQ(evaluations.back().number("turn", 0), 20);
    EXPECT_TRUE(std::filesystem::exists(path("disturbed") + "/done"));
    expect_nothing_left("disturbed");
    if (of.is_replayed) {
      EXPECT_EQ(replay(path("disturbed")).difference(), "");
    }
  }
}

using LostReplicas = Faults;

TEST_F(LostReplicas, LossWhereReplicasWaitForAllEndsTheRun) {
  const std::string all =
      "blocks=1 schedule=free replicas.count=3 replicas.policy=all_reduce ";
  const Outcome outcome = run("disturbed", all +
                                               "--inject 'kill block 3 @ "
                                               "turn 6'");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("replica 3"));
  EXPECT_TRUE(records_of(path("disturbed"), "lost_replica").empty());
  EXPECT_FALSE(std::filesystem::exists(path("disturbed") + "/done"));
}

/// Replica 1 has the centre.
TEST_F(LostReplicas, LossOfTheFirstReplicaEndsTheRun) {
  const Outcome outcome =
      run("disturbed",
          std::string(kBackup.config) + "--inject 'kill block 1 @ turn 6'");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("block 1"));
  EXPECT_FALSE(std::filesystem::exists(path("disturbed") + "/done"));
}

}  // namespace sluice::lost_replica_test
