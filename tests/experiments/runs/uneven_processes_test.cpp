// Blocks with different numbers of replicas in threads and processes: the bits
// of one thread, after kills too, and after a run is continued.
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::uneven_processes_test {

using testing::HasSubstr;

std::string with(const std::string& counts, int blocks = 2,
                 const std::string& policy = "backprop") {
  return fmt::format("blocks={} boundary.policy={} 'replicas.count={}' ",
                     blocks, policy, counts);
}

using UnevenProcesses = Faults;

class UnevenEngines : public Faults,
                      public testing::WithParamInterface<const char*> {};

TEST_P(UnevenEngines, HaveTheBitsOfOneThread) {
  const bool is_of_three = GetParam() == std::string("[2, 1, 2]");
  const std::string more =
      is_of_three ? with(GetParam(), 3, "delayed_gradient") : with(GetParam());
  run_undisturbed(more);
  for (const char* engine : {"threads", "processes"}) {
    const Outcome outcome =
        run("disturbed", more + "--overwrite engine=" + engine);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    expect_as_undisturbed("disturbed");
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, UnevenEngines,
                         testing::Values("[2, 1]", "[1, 2]", "[4, 2]",
                                         "[2, 1, 2]"));

TEST_F(UnevenProcesses, OverSharedMemoryHaveTheBitsOfOneThread) {
  const std::string more = with("[2, 1]") + "transport=shared_memory ";
  const Outcome outcome = run("disturbed", more);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", more);
}

// With batches in flight, which are sent again.
TEST_F(UnevenProcesses,
       ProcessesOfAnySeatThatIsKilledHaveTheBitsOfAnUndisturbedRun) {
  const std::string more = with("[2, 1]", 2, "delayed_gradient");
  run_undisturbed(more);
  for (const int seat : {1, 2, 3}) {
    const std::string faults =
        fmt::format("kill block {} @ turn {}", seat, 4 * seat + 1);
    SCOPED_TRACE(faults);
    const Outcome outcome = run_with(faults, more + "--overwrite");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    expect_as_undisturbed("disturbed");
  }
}

// With batches in flight; and with BatchNorm, whose statistics the replicas of
// some blocks agree on.
TEST_F(UnevenProcesses, GoOnWhereTheyWereSaved) {
  const auto weights_of = [&](const std::string& dir, std::int64_t turn) {
    return load_weights(checkpoint_folder(path(dir) + "/checkpoints", turn));
  };
  for (const char* counts : {"[2, 1, 2]", "[1, 2, 1]"}) {
    const std::string more = with(counts, 3, "delayed_gradient") +
                             "engine=virtual drain=false --overwrite ";
    ASSERT_EQ(run("whole", more + "turns=8").status, 0);
    ASSERT_EQ(run("part", more + "turns=5").status, 0);
    const NamedTensors saved = weights_of("part", 5);
    const Outcome resumed = sluice("run --resume " + path("part") + " turns=8");
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(difference(weights_of("part", 8), weights_of("whole", 8)), "")
        << counts;
    EXPECT_NE(difference(saved, weights_of("part", 8)), "") << counts;
  }
}

TEST_F(UnevenProcesses, GoOnWithOtherNumbers) {
  const std::string more = with("[2, 1]") + "engine=virtual --overwrite ";
  ASSERT_EQ(run("run", more + "turns=4").status, 0);
  const Outcome other = sluice("run --resume " + path("run") +
                               " 'replicas.count=[1, 2]' turns=6");
  ASSERT_EQ(other.status, 0) << other.text;
  EXPECT_THAT(other.text, HasSubstr("Replicas: [2, 1] become [1, 2]"));
  const Outcome one =
      sluice("run --resume " + path("run") + " replicas.count=1 turns=10");
  ASSERT_EQ(one.status, 0) << one.text;
  EXPECT_THAT(one.text, HasSubstr("Replicas: [1, 2] become 1"));
  EXPECT_THAT(one.text, HasSubstr("after 12 batches"));
}

TEST_F(UnevenProcesses, ProcessesOfShardsGoOnWithTheirOwnNumbersOnly) {
  const std::string more =
      with("[2, 1]") + "replicas.shard=true engine=virtual --overwrite ";
  ASSERT_EQ(run("run", more + "turns=4").status, 0);
  const Outcome other = sluice("run --resume " + path("run") +
                               " 'replicas.count=[1, 2]' turns=8");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.text, HasSubstr("replicas.count = [2, 1], and here it is "
                                    "[1, 2]"));
  const Outcome same = sluice("run --resume " + path("run") + " turns=8");
  ASSERT_EQ(same.status, 0) << same.text;
  ASSERT_EQ(run("whole", more + "turns=8").status, 0);
  const auto at_end = [&](const char* dir) {
    return load_weights(checkpoint_folder(path(dir) + "/checkpoints", 8));
  };
  EXPECT_EQ(difference(at_end("run"), at_end("whole")), "");
}

TEST_F(UnevenProcesses, AreRefusedByCommandsThatGoOverOneNumber) {
  const std::string more = with("[2, 1]") + "turns=8 ";
  const Outcome outcome = run("run", more + "engine=threads trace.turns=4");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const Outcome what_if = sluice("what-if " + path("run"));
  EXPECT_EQ(what_if.status, 2);
  EXPECT_THAT(what_if.text, HasSubstr("`sluice plan` knows lists"));
}

TEST_F(UnevenProcesses, ArePlannedAndVerified) {
  const std::string more = with("[2, 1]") + "turns=4 ";
  const Outcome planned =
      sluice("plan " + config_ + " " + more + "--list --turns 2");
  ASSERT_EQ(planned.status, 0) << planned.text;
  EXPECT_THAT(planned.text, HasSubstr("F0 B0 F1 B1 U1 F2 B2 F3 B3 U3"));
  const Outcome verified = sluice("verify " + config_ + " " + more);
  EXPECT_EQ(verified.status, 0) << verified.text;
}

}  // namespace sluice::uneven_processes_test
