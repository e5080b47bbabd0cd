// Runs of the program on GPUs have the bits of the CPU, however tensors go from
// block to block, whatever else a run does: on the simulated GPU, which does
// its operations on the CPU.
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::same_bits_test {

constexpr const char* kLines =
    "blocks = 3\nmodel = {hidden = [24, 20, 16], dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9}\n";
constexpr const char* kDelayed = "boundary = {policy = 'delayed_gradient'}\n";

/// What is trained in a folder of its own, where a run has a name.
class Runs {
 public:
  /// 12 turns.
  NamedTensors weights(const std::string& keys,
                       const std::string& boundary = kDelayed,
                       const std::string& environment = "") {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(kLines + boundary);
    do_run(environment, fmt::format("{} {} --dir {}", config, keys, next()));
    return at_end();
  }
  /// Weights of a run in two parts.
  NamedTensors weights_of_two_parts(const std::string& keys,
                                    const std::string& keys_of_second) {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(kLines + std::string(kDelayed));
    do_run("", fmt::format("{} {} turns=7 drain=false --dir {}", config, keys,
                           next()));
    do_run("", fmt::format("--resume {} turns=12 drain=true {}", run_,
                           keys_of_second));
    return at_end();
  }

 private:
  std::string next() {
    run_ = fmt::format("{}/{}", folder_.path(), ++runs_);
    return run_;
  }
  static void do_run(const std::string& environment,
                     const std::string& arguments) {
    const Outcome run = shell(fmt::format("{} {} run {}", environment,
                                          SLUICE_SIM_PROGRAM, arguments));
    EXPECT_EQ(run.status, 0) << run.text;
  }
  NamedTensors at_end() const {
    return load_weights(checkpoint_folder(run_ + "/checkpoints", 12));
  }

  const TemporaryFolder folder_;
  std::string run_;
  int runs_ = 0;
};

const NamedTensors& weights_on_the_cpu() {
  static const NamedTensors weights =
      Runs().weights("device=cpu engine=virtual");
  return weights;
}

struct WayOfRun {
  const char* name;
  const char* keys;
  const char* environment = "";
};

class SameBits : public testing::TestWithParam<WayOfRun> {};

TEST_P(SameBits, OnGpusAsOnTheCpu) {
  const auto& [name, keys, environment] = GetParam();
  SCOPED_TRACE(name);
  const NamedTensors gpu = Runs().weights(keys, kDelayed, environment);
  EXPECT_FALSE(gpu.empty());
  EXPECT_EQ(difference(weights_on_the_cpu(), gpu), "");
}

constexpr const char* kMixed = "'device=[\"cpu\", \"cuda:1\", \"cpu\"]'";
const WayOfRun kWays[] = {
    {"Virtual", "device=cuda engine=virtual"},
    {"Threads", "device=cuda engine=threads"},
    {"OneGpu", "device=cuda:0 engine=processes"},
    {"Unix", "device=cuda engine=processes transport=unix"},
    {"Tcp", "device=cuda engine=processes transport=tcp"},
    {"Tls", "device=cuda engine=processes transport=tls"},
    {"SharedMemory", "device=cuda engine=processes transport=shared_memory"},
    {"Auto", "device=cuda engine=processes transport=auto"},
    {"ThroughTheHost",
     "device=cuda engine=processes transport=shared_memory cuda_ipc=false"},
    {"WithoutPeerAccess",
     "device=cuda engine=processes transport=shared_memory", "SIMCUDA_PEERS=0"},
    {"Probe", "device=cuda engine=processes probe.every=4"},
    {"WithoutEvaluations", "device=cuda engine=threads evaluate_every=0"},
};

INSTANTIATE_TEST_SUITE_P(Ways, SameBits, testing::ValuesIn(kWays),
                         [](const auto& info) { return info.param.name; });

TEST(SameBitsOfRuns, OnCpusAndGpusInOneRun) {
  Runs runs;
  for (const char* engine : {"virtual", "threads", "processes"})
    EXPECT_EQ(
        difference(weights_on_the_cpu(),
                   runs.weights(fmt::format("{} engine={}", kMixed, engine))),
        "")
        << engine;
}

/// With batches in flight where it was cut off.
TEST(SameBitsOfRuns, InTwoPartsAsInOne) {
  Runs runs;
  EXPECT_EQ(
      difference(weights_on_the_cpu(),
                 runs.weights_of_two_parts("device=cuda engine=processes", "")),
      "");
  EXPECT_EQ(difference(weights_on_the_cpu(),
                       runs.weights_of_two_parts("device=cuda engine=threads",
                                                 "engine=processes")),
            "");
}

/// Messages are taken at other times in any two runs. The test is only that no
/// order is missing: that would end the program.
TEST(SameBitsOfRuns, AreNotAskedOfFreeSchedulesWhichHaveAnOrderThough) {
  Runs runs;
  for (const char* keys :
       {"engine=threads", "engine=processes transport=shared_memory"}) {
    const NamedTensors weights =
        runs.weights(fmt::format("device=cuda schedule=free {}", keys),
                     "boundary = {policy = 'local_loss'}\n");
    EXPECT_FALSE(weights.empty()) << keys;
  }
}

}  // namespace sluice::same_bits_test
