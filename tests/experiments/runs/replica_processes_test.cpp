// Replicas in processes: the bits of the other engines over every transport,
// after kills, and after a run is continued.
#include <filesystem>
#include <ostream>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replica_processes_test {

using testing::HasSubstr;

constexpr const char* kTwoByTwo = "blocks=2 replicas.count=2 ";
constexpr const char* kAverage =
    "blocks=2 replicas.count=2 replicas.policy=average replicas.every=3 "
    "replicas.outer_lr=0.7 replicas.outer_momentum=0.9 ";
constexpr const char* kStreaming =
    "blocks=2 replicas.count=2 replicas.policy=average replicas.every=3 "
    "replicas.stagger=true replicas.overlap=2 replicas.mixing=0.25 "
    "replicas.outer_lr=0.7 replicas.outer_momentum=0.9 ";
constexpr const char* kSparse =
    "blocks=2 replicas.count=3 replicas.policy=average replicas.every=3 "
    "replicas.compress=top_k replicas.ratio=0.05 replicas.chunk=64 "
    "replicas.error_decay=0.9 ";
constexpr const char* kOuterPairs =
    "blocks=2 replicas.count=4 replicas.policy=gossip replicas.graph=complete "
    "replicas.pairs=true replicas.mix=after replicas.every=3 "
    "replicas.outer_lr=0.7 replicas.outer_momentum=0.3 "
    "replicas.outer_pull=0.5 ";
constexpr const char* kMovements =
    "blocks=2 replicas.count=2 replicas.policy=server replicas.push=movement "
    "replicas.every=3 replicas.outer_lr=0.7 replicas.outer_momentum=0.9 "
    "replicas.outer_every=3 ";
constexpr const char* kLookAhead =
    "blocks=2 replicas.count=2 replicas.policy=elastic "
    "replicas.one_by_one=true replicas.every=2 boundary.policy=backprop "
    "'optimizer={name = \"sgd\", lr = 0.05, momentum = 0.9, look_ahead = "
    "true}' ";
constexpr const char* kElastic =
    "blocks=2 replicas.count=2 replicas.policy=elastic replicas.every=2 ";

constexpr const char* kShards =
    "blocks=2 replicas.count=2 replicas.shard=true optimizer.name=adamw ";

constexpr const char* kGossip =
    "blocks=2 replicas.count=2 replicas.policy=gossip replicas.every=3 ";
constexpr const char* kPush =
    "blocks=2 replicas.count=3 replicas.policy=gossip replicas.graph=random "
    "replicas.mix=after replicas.push_sum=true ";
constexpr const char* kNeighbours =
    "blocks=2 replicas.count=3 replicas.policy=neighbours ";
constexpr const char* kServer =
    "blocks=2 replicas.count=3 replicas.policy=server "
    "optimizer.correction.name=staleness_aware ";

constexpr const char* kClipped =
    "blocks=3 replicas.count=2 boundary.policy=backprop "
    "optimizer.clip.norm=0.01 optimizer.clip.scope=model ";

constexpr const char* kSynthetic =
    "blocks=3 replicas.count=2 boundary.policy=synthetic_gradient "
    "boundary.target_delay=1 ";
constexpr const char* kSyntheticAverage =
    "blocks=3 replicas.count=2 boundary.policy=synthetic_gradient "
    "replicas.policy=average replicas.every=3 replicas.outer_momentum=0.9 ";

using ReplicaProcesses = Faults;

class ReplicasOver : public Faults,
                     public testing::WithParamInterface<const char*> {};

TEST_P(ReplicasOver, ATransportHaveTheBitsOfOneThread) {
  const std::string more =
      fmt::format("{} transport={}", kTwoByTwo, GetParam());
  const Outcome outcome = run("disturbed", more);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", more);
}

INSTANTIATE_TEST_SUITE_P(Transports, ReplicasOver,
                         testing::Values("unix", "tcp", "tls", "shared_memory"),
                         [](const auto& info) { return info.param; });

TEST_F(ReplicaProcesses, InThreadsHaveTheBitsOfOneThread) {
  const std::string more = std::string(kTwoByTwo) + "replicas.count=3 ";
  const Outcome outcome = run("disturbed", more + "engine=threads");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_undisturbed("disturbed", more);
}

TEST_F(ReplicaProcesses, ThatClipByTheNormOfTheModelHaveTheBitsOfOneThread) {
  for (const char* at : {"update", "replica"}) {
    const std::string more =
        fmt::format("{} optimizer.clip.at={} ", kClipped, at);
    run_undisturbed(more);
    for (const char* engine : {"threads", "processes"}) {
      const Outcome outcome =
          run("disturbed", more + "--overwrite engine=" + engine);
      ASSERT_EQ(outcome.status, 0) << outcome.text;
      expect_as_undisturbed("disturbed");
    }
  }
}

class ReplicasAmongPeers : public Faults,
                           public testing::WithParamInterface<const char*> {};

TEST_P(ReplicasAmongPeers, HaveTheBitsOfOneThread) {
  run_undisturbed(GetParam());
  for (const char* engine : {"threads", "processes"}) {
    const Outcome outcome = run(
        "disturbed", std::string(GetParam()) + "--overwrite engine=" + engine);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    expect_as_undisturbed("disturbed");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, ReplicasAmongPeers,
    testing::Values(
        kPush, kNeighbours, kServer, kStreaming, kSparse, kOuterPairs,
        kMovements, kLookAhead,
        "blocks=2 replicas.count=4 replicas.policy=gossip replicas.pairs=true ",
        "blocks=1 replicas.count=5 replicas.policy=gossip replicas.graph=hops "
        "replicas.rotate=true replicas.mix=after "));

INSTANTIATE_TEST_SUITE_P(Synthesizers, ReplicasAmongPeers,
                         testing::Values(kSynthetic, kSyntheticAverage));

struct KillCase {
  const char* config;
  int workers;     ///< blocks times replicas
  unsigned kills;  ///< where SLUICE_KILLS says nothing
};

void PrintTo(const KillCase& of, std::ostream* to) {
  *to << of.config;
}

class ReplicasAfterKills : public Faults,
                           public testing::WithParamInterface<KillCase> {};

TEST_P(ReplicasAfterKills, ReplicasOfAnySeatHaveTheBitsOfAnUndisturbedRun) {
  const auto& [config, workers, usually] = GetParam();
  const unsigned kills = from_environment("SLUICE_KILLS", usually);
  std::mt19937 random(random_seed());
  run_undisturbed(config);
  for (unsigned i = 0; i < kills; ++i) {
    const std::string faults =
        fmt::format("kill block {} @ turn {}",
                    std::uniform_int_distribution(1, workers)(random),
                    std::uniform_int_distribution(0, 19)(random));
    SCOPED_TRACE(faults);
    const Outcome outcome =
        run_with(faults, std::string(config) + " --overwrite");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(records_of(path("disturbed"), "restart").size(), 1U);
    expect_as_undisturbed("disturbed");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, ReplicasAfterKills,
    testing::Values(KillCase{kTwoByTwo, 4, 3}, KillCase{kAverage, 4, 3},
                    KillCase{kStreaming, 4, 2}, KillCase{kSparse, 6, 1},
                    KillCase{kOuterPairs, 8, 1}, KillCase{kMovements, 4, 1},
                    KillCase{kLookAhead, 4, 1}, KillCase{kElastic, 4, 3},
                    KillCase{kShards, 4, 3}, KillCase{kGossip, 4, 2},
                    KillCase{kPush, 6, 2}, KillCase{kNeighbours, 6, 2},
                    KillCase{kServer, 6, 2}, KillCase{kClipped, 6, 1},
                    KillCase{kSynthetic, 6, 1}));

class ResumedReplicas : public Faults,
                        public testing::WithParamInterface<const char*> {};

/// What each replica goes on with at the end.
void expect_same_replicas(const std::string& whole, const std::string& parts) {
  const auto last = [](const std::string& dir) {
    return find_checkpoints(dir + "/checkpoints").rbegin()->second;
  };
  for (const int replica : {1, 2}) {
    EXPECT_EQ(difference(load_own_weights(last(whole), replica),
                         load_own_weights(last(parts), replica)),
              "");
    EXPECT_EQ(difference(load_own_state(last(whole), replica),
                         load_own_state(last(parts), replica)),
              "");
  }
}

TEST_P(ResumedReplicas, EndAsIfTheyHadNotStopped) {
  const std::string more = std::string(GetParam()) + " engine=virtual ";
  ASSERT_EQ(run("whole", more).status, 0);
  // Batches are in flight there, and averages are one update away.
  ASSERT_EQ(run("parts", more + "turns=8 drain=false").status, 0);
  const Outcome resumed =
      sluice("run --resume " + path("parts") + " turns=20 drain=true");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_same_replicas(path("whole"), path("parts"));
}

INSTANTIATE_TEST_SUITE_P(Policies, ResumedReplicas,
                         testing::Values(kTwoByTwo, kAverage, kStreaming,
                                         kSparse, kOuterPairs, kMovements,
                                         kLookAhead, kElastic, kShards, kGossip,
                                         kPush, kNeighbours, kServer,
                                         kSynthetic, kSyntheticAverage));

TEST_F(ReplicaProcesses, ProcessesOfAnotherNumberGoOnWithTheBitsOfOneThread) {
  const std::string adam = std::string(kTwoByTwo) + "optimizer.name=adam ";
  for (const std::string engine : {"virtual", "processes"}) {
    ASSERT_EQ(run(engine, adam + "turns=8 engine=" + engine).status, 0);
    const Outcome resumed =
        sluice("run --resume " + path(engine) + " replicas.count=3 turns=14");
    ASSERT_EQ(resumed.status, 0) << resumed.text;
  }
  EXPECT_EQ(difference(load_weights(path("virtual/checkpoints/turn-000014")),
                       load_weights(path("processes/checkpoints/turn-000014"))),
            "");
}

std::int64_t bytes_of_state(const std::string& checkpoint, int replica) {
  return bytes_of(values_of(load_own_state(checkpoint, replica)));
}

TEST_F(ReplicaProcesses, ProcessesOfShardsSaveHalfOfTheOptimizersStateEach) {
  const std::string adamw = std::string(kTwoByTwo) + "optimizer.name=adamw ";
  ASSERT_EQ(run("whole", adamw + "turns=8").status, 0);
  ASSERT_EQ(run("shards", adamw + "replicas.shard=true turns=8").status, 0);
  const std::string whole = path("whole/checkpoints/turn-000008");
  const std::string shards = path("shards/checkpoints/turn-000008");
  EXPECT_EQ(difference(load_weights(shards), load_weights(whole)), "");
  for (const int replica : {1, 2})
    EXPECT_LT(static_cast<double>(bytes_of_state(shards, replica)),
              0.6 * static_cast<double>(bytes_of_state(whole, replica)));
}

TEST_F(ReplicaProcesses, WhoseFilesAreGoneAreNamed) {
  ASSERT_EQ(
      run("mean", std::string(kAverage) + "engine=virtual turns=8").status, 0);
  const std::string last = path("mean/checkpoints/turn-000008");
  for (const char* own : {"replica-2", "replica-1"}) {
    std::filesystem::remove_all(last + "/" + own);
    const Outcome refused =
        sluice("run --resume " + path("mean") + " turns=20");
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.text, HasSubstr(last + "/" + own + ": isn't there"));
    std::filesystem::create_directories(last + "/replica-2");
    std::filesystem::copy(last, last + "/replica-2",
                          std::filesystem::copy_options::overwrite_existing);
  }
}

TEST_F(ReplicaProcesses, ProcessesOfAnotherPolicyCannotGoOnAndSayHowTo) {
  ASSERT_EQ(run("two", std::string(kShards) + "engine=virtual turns=8").status,
            0);
  const std::string resume = "run --resume " + path("two") + " turns=20 ";
  for (const char* other : {"replicas.shard=false",
                            "'replicas={count = 2, policy = \"average\"}'"}) {
    const Outcome refused = sluice(resume + other);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.text, HasSubstr("begin a run with initial_weights"));
  }
  ASSERT_EQ(run("mean", std::string(kTwoByTwo) +
                            "replicas.policy=average engine=virtual turns=8")
                .status,
            0);
  const Outcome outer = sluice("run --resume " + path("mean") +
                               " turns=20 replicas.outer_lr=0.5");
  EXPECT_EQ(outer.status, 2);
  EXPECT_THAT(outer.text, HasSubstr("other keys of [replicas]"));
}

TEST_F(ReplicaProcesses, AreEvaluatedWithWhatTheyAgreeOn) {
  ASSERT_EQ(
      run("mean", std::string(kAverage) +
                      "engine=virtual turns=8 evaluate_every=0 drain=false")
          .status,
      0);
  const std::string last = path("mean/checkpoints/turn-000008");
  const NamedTensors agreed = load_weights(last);
  const auto of = [](const NamedTensors& all, const std::string& name) {
    for (const auto& [each, tensor] : all)
      if (each == name) return tensor;
    return at::Tensor();
  };
  const std::string name = "layers.0.linear.weight";
  const at::Tensor mean = (of(load_own_weights(last, 1), name) +
                           of(load_own_weights(last, 2), name)) /
                          2;
  EXPECT_LT((of(agreed, name) - mean).abs().max().item<float>(), 1e-6F);
  EXPECT_FALSE(of(agreed, name).equal(of(load_own_weights(last, 1), name)));
  const Outcome evaluated = sluice("eval " + last);
  const auto said = records_of(path("mean"), "evaluation");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(evaluated.text,
              HasSubstr(fmt::format("loss {:.4f}", said[0].number("loss", 0))));
}

TEST_F(ReplicaProcesses, AreNamedWhenTheyAreLost) {
  const Outcome outcome =
      run("lost", std::string(kTwoByTwo) + "--inject 'kill block 4 @ turn 6'");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, HasSubstr("of block 2 of replica 2 was ended by"));
}

}  // namespace sluice::replica_processes_test
