// Replicas in processes on GPUs: what they exchange has the bits of `virtual`
// on the CPU, however it goes; on the simulated GPU.
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replicas_on_gpus_test {

using testing::ContainsRegex;
using testing::HasSubstr;

/// A run of 12 turns in a folder of its own.
class Runs {
 public:
  NamedTensors weights(const std::string& replicas, const std::string& keys,
                       const std::string& environment = "", int blocks = 2) {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(
        fmt::format("blocks = {}\n"
                    "model = {{hidden = [40, 20], batch_norm = true}}\n"
                    "boundary = {{policy = 'delayed_gradient'}}\n"
                    "replicas = {}\n",
                    blocks, replicas));
    run_ = fmt::format("{}/{}", folder_.path(), ++runs_);
    const Outcome outcome =
        shell(fmt::format("{} {} run {} {} --dir {}", environment,
                          SLUICE_SIM_PROGRAM, config, keys, run_));
    EXPECT_EQ(outcome.status, 0) << replicas << "\n" << outcome.text;
    return load_weights(checkpoint_folder(run_ + "/checkpoints", 12));
  }
  Outcome replay() const {
    return shell(fmt::format("{} replay {}", SLUICE_SIM_PROGRAM, run_));
  }
  std::string metrics() const { return slurp(run_ + "/metrics.jsonl"); }

 private:
  const TemporaryFolder folder_;
  std::string run_;
  int runs_ = 0;
};

struct Case {
  const char* name;
  const char* replicas;
  int blocks = 1;  ///< of each replica, in a process each
  bool by_tcp = false;
};

/// The first weights are larger than what leaves in the order of what is
/// computed (kSmallCopy), and BatchNorm counts in integers. None of these cases
/// fails where weights are sent themselves instead of copies of them: shipped
/// configs do, which `scripts/gpu-figures --simulated --only replicas:` runs.
class ReplicasOnGpus : public testing::TestWithParam<Case> {};

TEST_P(ReplicasOnGpus, ExchangeTheBitsOfTheCpuBetweenProcesses) {
  Runs runs;
  const auto& [name, replicas, blocks, by_tcp] = GetParam();
  const NamedTensors cpu =
      runs.weights(replicas, "device=cpu engine=virtual", "", blocks);
  std::vector<std::string> ways = {"transport=shared_memory"};
  if (by_tcp) ways.emplace_back("transport=tcp");
  for (const std::string& way : ways)
    EXPECT_EQ(
        difference(cpu,
                   runs.weights(replicas, "device=cuda engine=processes " + way,
                                "", blocks)),
        "")
        << way;
}

/// A case of each kind of exchange; `scripts/check-long pairs` has all.
const Case kCases[] = {
    {"AllReduce", "{count = 2}", 2, true},
    {"Average", "{count = 2, policy = 'average', every = 2}", 1, true},
    {"Elastic", "{count = 2, policy = 'elastic'}"},
    {"PowerSgd", "{count = 2, compress = 'power_sgd'}", 2, true},
    {"OneBit", "{count = 2, compress = 'one_bit'}"},
    {"ShardsOfFour", "{count = 4, shard = true}"},
    {"Neighbours", "{count = 3, policy = 'neighbours'}"},
    {"Gossip", "{count = 4, policy = 'gossip'}", 2, true},
};

INSTANTIATE_TEST_SUITE_P(Policies, ReplicasOnGpus, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// Policies whose replicas come to a centre, which is on the CPU.
constexpr const char* kServed[] = {
    "{count = 3, policy = 'server'}",
    "{count = 3, policy = 'server', push = 'movement', every = 2}",
    "{count = 3, policy = 'elastic', one_by_one = true}",
    "{count = 3, policy = 'average', every = 2, quorum = 2, deal = "
    "'arrival'}"};

TEST(ReplicasOnGpusOfACentre, HaveTheBitsOfTheCpu) {
  Runs runs;
  const std::string keys =
      "engine=virtual schedule=free virtual.forward=1.0 virtual.backward=2.0 "
      "'virtual.slow=[\"1.2x2.5\"]' device=";
  for (const char* replicas : kServed)
    EXPECT_EQ(difference(runs.weights(replicas, keys + "cpu"),
                         runs.weights(replicas, keys + "cuda")),
              "")
        << replicas;
}

TEST(ReplicasOnGpusOfACentre, HaveTheBitsOfTheirRecordBetweenProcesses) {
  Runs runs;
  for (const char* replicas : kServed) {
    runs.weights(replicas, "engine=processes schedule=free device=cuda");
    const Outcome replayed = runs.replay();
    EXPECT_EQ(replayed.status, 0) << replicas << "\n" << replayed.text;
  }
}

TEST(ReplicasOnGpusOfOneHost, SendByCudaIpc) {
  Runs runs;
  runs.weights("{count = 2}",
               "device=cuda engine=processes transport=shared_memory");
  EXPECT_THAT(runs.metrics(), ContainsRegex("\"replicas_by_ipc\":[1-9]"));
  EXPECT_THAT(runs.metrics(), HasSubstr("\"replicas_through_host\":0"));
}

TEST(ReplicasOnGpusOfOneHost, SendThroughTheHostWhereNoGpuReachesTheOther) {
  Runs runs;
  const NamedTensors cpu =
      runs.weights("{count = 2}", "device=cpu engine=virtual");
  const std::string keys =
      "engine=processes transport=shared_memory device=cuda";
  EXPECT_EQ(
      difference(cpu, runs.weights("{count = 2}", keys, "SIMCUDA_PEERS=0")),
      "");
  EXPECT_EQ(
      difference(cpu, runs.weights("{count = 2}", keys + " cuda_ipc=false")),
      "");
  EXPECT_THAT(runs.metrics(), ContainsRegex("\"replicas_through_host\":[1-9]"));
}

/// The weights of a block are more than 64 KiB here, so that slots hold them.
constexpr const char* kWide = "'model.hidden=[400, 400]'";

TEST(ReplicasThatShareAGpu, GoByPinnedSlotsWhereTheyTakeTurnsThere) {
  Runs runs;
  const std::string keys = fmt::format(
      "{} engine=processes transport=shared_memory device=cuda:0", kWide);
  const TemporaryFolder none;
  runs.weights("{count = 2}", keys, "CUDA_MPS_PIPE_DIRECTORY=" + none.path());
  EXPECT_THAT(runs.metrics(), HasSubstr("nvidia-cuda-mps-control -d"));
  EXPECT_THAT(runs.metrics(), HasSubstr("\"replicas_by_ipc\":0"));
}

TEST(ReplicasThatShareAGpu, GoByCudaIpcUnderMps) {
  Runs runs;
  const TemporaryFolder pipes;
  std::ofstream(pipes.path() + "/control") << "";
  runs.weights(
      "{count = 2}",
      fmt::format("{} engine=processes transport=shared_memory device=cuda:0",
                  kWide),
      "CUDA_MPS_PIPE_DIRECTORY=" + pipes.path());
  EXPECT_THAT(runs.metrics(), ContainsRegex("\"replicas_by_ipc\":[1-9]"));
}

}  // namespace sluice::replicas_on_gpus_test
