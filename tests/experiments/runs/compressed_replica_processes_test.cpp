// Replicas that compress their gradients, in threads and processes: the bits of
// one thread, after kills, and after a run is continued.
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::compressed_processes_test {

using testing::HasSubstr;

constexpr const char* kTwoByTwo =
    "blocks=2 replicas.count=2 optimizer.name=sgd optimizer.momentum=0 "
    "optimizer.lr=0.05 ";

class CompressedProcesses : public Faults,
                            public testing::WithParamInterface<const char*> {
 protected:
  static std::string compressed(const std::string& options) {
    return std::string(kTwoByTwo) + options + " ";
  }
};

constexpr const char* kTopK = "replicas.compress=top_k replicas.ratio=0.05";
constexpr const char* kThreshold =
    "replicas.compress=threshold replicas.threshold=0.005";
constexpr const char* kDgc =
    "replicas.compress=dgc replicas.ratio=0.02 replicas.warmup_epochs=2";
constexpr const char* kOneBit = "replicas.compress=one_bit";
constexpr const char* kQsgd = "replicas.compress=qsgd";
constexpr const char* kSign =
    "replicas.compress=sign replicas.momentum=0.5 optimizer.lr=0.001";
constexpr const char* kPowerSgd = "replicas.compress=power_sgd";

TEST_P(CompressedProcesses, HaveTheBitsOfOneThread) {
  const std::string more = compressed(GetParam());
  const Outcome outcome = run("disturbed", more);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", more);
}

class ContinuedCompression : public CompressedProcesses {};

TEST_P(ContinuedCompression, EndsAsIfItHadNotStopped) {
  const std::string more = compressed(GetParam()) + "engine=virtual ";
  ASSERT_EQ(run("whole", more).status, 0);
  ASSERT_EQ(run("parts", more + "turns=8 drain=false").status, 0);
  const Outcome resumed =
      sluice("run --resume " + path("parts") + " turns=20 drain=true");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  const auto last = [&](const char* dir) {
    return find_checkpoints(path(dir) + "/checkpoints").rbegin()->second;
  };
  for (const int replica : {1, 2}) {
    EXPECT_EQ(difference(load_own_weights(last("whole"), replica),
                         load_own_weights(last("parts"), replica)),
              "");
    EXPECT_EQ(difference(load_own_state(last("whole"), replica),
                         load_own_state(last("parts"), replica)),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Compressors, CompressedProcesses,
                         testing::Values(kTopK, kOneBit, kQsgd, kPowerSgd));
INSTANTIATE_TEST_SUITE_P(Compressors, ContinuedCompression,
                         testing::Values(kThreshold, kDgc, kOneBit, kSign,
                                         kPowerSgd));

using CompressedRuns = Faults;

TEST_F(CompressedRuns, InThreadsHaveTheBitsOfOneThread) {
  const std::string more =
      std::string(kTwoByTwo) + kOneBit + " replicas.count=3 ";
  const Outcome outcome = run("disturbed", more + "engine=threads");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", more);
}

TEST_F(CompressedRuns, OverSharedMemoryHaveTheBitsOfOneThread) {
  const std::string more = std::string(kTwoByTwo) + kDgc + " replicas.count=3 ";
  const Outcome outcome = run("disturbed", more + "transport=shared_memory");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", more);
}

TEST_F(CompressedRuns, AfterAKillHaveTheBitsOfAnUndisturbedRun) {
  for (const char* options : {kDgc, kOneBit}) {
    const std::string more = std::string(kTwoByTwo) + options;
    run_undisturbed(more);
    const Outcome outcome =
        run_with("kill block 3 @ turn 11", more + " --overwrite");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    expect_as_undisturbed("disturbed");
  }
}

/// What replica r of block 1 holds back, of its first weights.
at::Tensor held_back(const std::string& checkpoint, int replica) {
  for (const auto& [name, tensor] : load_own_state(checkpoint, replica))
    if (name == "replicas.compress.residual.layers.0.linear.weight")
      return tensor;
  return {};
}

TEST_F(CompressedRuns, SaveWhatEachReplicaHoldsBack) {
  ASSERT_EQ(
      run("two", std::string(kTwoByTwo) + kTopK + " engine=virtual turns=8")
          .status,
      0);
  const std::string last = path("two/checkpoints/turn-000008");
  ASSERT_TRUE(held_back(last, 1).defined());
  ASSERT_TRUE(held_back(last, 2).defined());
  EXPECT_FALSE(held_back(last, 1).equal(held_back(last, 2)));
}

TEST_F(CompressedRuns, GoOnWithAnotherNumberButNotByAnotherCompressor) {
  ASSERT_EQ(
      run("two", std::string(kTwoByTwo) + kTopK + " engine=virtual turns=8")
          .status,
      0);
  const std::string resume = "run --resume " + path("two") + " turns=12 ";
  const Outcome refused = sluice(resume + "replicas.compress=none");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("begin a run with initial_weights"));
  const Outcome three = sluice(resume + "replicas.count=3");
  EXPECT_EQ(three.status, 0) << three.text;
}

TEST_F(CompressedRuns, AreListedAndDescribed) {
  EXPECT_THAT(sluice("list compressors").text, HasSubstr("power_sgd"));
  EXPECT_THAT(sluice("help config").text,
              HasSubstr("With replicas.compress = \"dgc\""));
}

}  // namespace sluice::compressed_processes_test
