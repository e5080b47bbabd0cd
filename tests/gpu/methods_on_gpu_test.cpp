// Blocks on a GPU, several processes sharing it: the engines agree on the bits,
// and the GPU with the CPU on the numbers. scripts/test-gpu runs them where a
// GPU is; elsewhere they say so and are skipped.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/uses/verify.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/tensors/device.h"
#include "lib/tensors/gpu/cuda_ipc.h"
#include "tests/experiments/helpers/methods.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"
#include "tests/gpu/trained_on.h"

namespace sluice::methods_on_gpu_test {

constexpr const char* kMlp =
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9, weight_decay = 0.01}\n";
constexpr const char* kConv =
    "model = {name = 'conv3', channels = 8, dropout = 0.2}\n"
    "optimizer = {name = 'adam', lr = 0.001}\n";
constexpr const char* kSame = "virtual: \nthreads: \nprocesses: \n";

/// Prebuilt programs lie elsewhere than where they were built.
std::string program() {
  const char* moved = std::getenv("SLUICE_PROGRAM");
  return moved == nullptr ? SLUICE_PROGRAM : moved;
}

/// What verify says of each engine, a line each.
std::string differences(const std::string& lines) {
  VerifyOptions options{.turns = 6, .program = program()};
  options.read = [&](const std::vector<std::string>& overrides) {
    ConfigNode config = parse_toml(config_with(lines), "test.toml");
    for (const std::string& text : overrides) apply_override(config, text);
    return read_experiment(config, "");
  };
  StopSignals signals;
  std::string found;
  for (const VerifiedEngine& one : verify(options, signals).engines)
    found += one.engine + ": " + one.difference + "\n";
  return found;
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

class MethodOnGpu
    : public OnGpu,
      public testing::WithParamInterface<std::tuple<MethodUnderTest, int>> {};

TEST_P(MethodOnGpu, HasTheSameBitsOnEveryEngine) {
  const auto& [method, blocks] = GetParam();
  EXPECT_EQ(differences(fmt::format("device = 'cuda'\nblocks = {}\n{}boundary "
                                    "= {}\n",
                                    blocks, kMlp, method.boundary)),
            kSame);
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodOnGpu,
                         testing::Combine(testing::ValuesIn(methods()),
                                          testing::Values(2, 3)),
                         [](const auto& info) {
                           return fmt::format("{}In{}Blocks",
                                              std::get<0>(info.param).name,
                                              std::get<1>(info.param));
                         });

TEST_F(OnGpu, ConvolutionsHaveTheSameBits) {
  for (const char* policy : {"delayed_gradient", "local_loss"})
    EXPECT_EQ(
        differences(fmt::format("device = 'cuda'\nblocks = 3\n{}boundary = "
                                "{{policy = '{}'}}\n",
                                kConv, policy)),
        kSame)
        << policy;
}

TEST_F(OnGpu, CodecsHaveTheSameBits) {
  for (const char* codec : {"'fp16'", "'bf16'", "'int8'", "'hadamard4'",
                            "{name = 'top_k', ratio = 0.2}",
                            "{up = {name = 'delta', bits = 4}, down = 'int8'}",
                            "{name = 'low_rank', ratio = 0.5}",
                            "{up = {name = 'codebook', dim = 4}}"})
    EXPECT_EQ(differences(fmt::format("device = 'cuda'\nblocks = 3\n{}boundary "
                                      "= {{policy = 'delayed_gradient', codec "
                                      "= {}}}\n",
                                      kMlp, codec)),
              kSame)
        << codec;
}

TEST_F(OnGpu, BlocksMayBeOnDifferentDevices) {
  EXPECT_EQ(differences(fmt::format(
                "device = ['cpu', 'cuda:0', 'cpu']\nblocks = 3\n{}boundary = "
                "{{policy = 'fully_decoupled'}}\n",
                kMlp)),
            kSame);
}

/// Over shared memory tensors go by CUDA IPC, or through the host.
class WayOnGpu : public OnGpu,
                 public testing::WithParamInterface<std::tuple<int, bool>> {
 protected:
  /// Lines of a config for processes that share the GPU.
  static std::string lines_of(const std::string& boundary) {
    const auto& [blocks, by_ipc] = GetParam();
    return fmt::format(
        "device = 'cuda'\ntransport = 'shared_memory'\ncuda_ipc = {}\n"
        "blocks = {}\n{}boundary = {}\n",
        by_ipc, blocks, kMlp, boundary);
  }
};

TEST_P(WayOnGpu, HasTheSameBitsOnEveryEngine) {
  for (const char* boundary :
       {"{policy = 'fully_decoupled'}", "{policy = 'local_loss', reach = 1}"})
    EXPECT_EQ(differences(lines_of(boundary)), kSame) << boundary;
}

TEST_P(WayOnGpu, CodecsHaveTheSameBits) {
  EXPECT_EQ(
      differences(lines_of("{policy = 'delayed_gradient', codec = 'int8'}")),
      kSame);
}

/// Sum over all blocks, from the records of what they have cost.
std::int64_t sum_of(const std::string& metrics, const std::string& key) {
  const std::regex number("\"" + key + "\": ?([0-9]+)");
  std::int64_t sum = 0;
  for (std::sregex_iterator found(metrics.begin(), metrics.end(), number), end;
       found != end; ++found)
    sum += std::stoll((*found)[1]);
  return sum;
}

TEST_P(WayOnGpu, IsTheOneThatIsTaken) {
  if (std::get<bool>(GetParam()) && !has_cuda_ipc(c10::Device(c10::kCUDA, 0)))
    GTEST_SKIP() << "no CUDA IPC";
  const TemporaryFolder folder;
  const std::string config = folder.path() + "/config.toml";
  std::ofstream(config) << config_with(lines_of("{policy = 'backprop'}"));
  const Outcome run =
      shell(fmt::format("{} run {} engine=processes --dir {}/run", program(),
                        config, folder.path()));
  ASSERT_EQ(run.status, 0) << run.text;
  const std::string metrics = slurp(folder.path() + "/run/metrics.jsonl");
  const bool by_ipc = std::get<bool>(GetParam());
  for (const char* way : {"up", "down"}) {
    const std::string key = way;
    EXPECT_EQ(sum_of(metrics, key + "_by_ipc") > 0, by_ipc) << metrics;
    EXPECT_EQ(sum_of(metrics, key + "_through_host") > 0, !by_ipc) << metrics;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, WayOnGpu, testing::Combine(testing::Values(2, 3), testing::Bool()),
    [](const auto& info) {
      return fmt::format("{}In{}Blocks",
                         std::get<1>(info.param) ? "ByIpc" : "ThroughHost",
                         std::get<0>(info.param));
    });

/// Where a run works on the second GPU alone, nothing of it starts CUDA on the
/// first: the simulated GPU ends a program that does.
class SecondGpu
    : public OnGpu,
      public testing::WithParamInterface<std::tuple<const char*, const char*>> {
};

TEST_P(SecondGpu, IsTheOnlyOneThatIsUsed) {
  if (count_gpus() < 2) GTEST_SKIP() << "one GPU";
  const auto& [engine, devices] = GetParam();
  const TemporaryFolder folder;
  const std::string config = folder.path() + "/config.toml";
  std::ofstream(config) << config_with(
      fmt::format("blocks = 3\ndevice = {}\n{}boundary = {{policy = "
                  "'delayed_gradient'}}\n",
                  devices, kMlp));
  const Outcome run = shell(fmt::format("{} run {} {} --dir {}/run", program(),
                                        config, engine, folder.path()));
  EXPECT_EQ(run.status, 0) << run.text;
}

INSTANTIATE_TEST_SUITE_P(
    Engines, SecondGpu,
    testing::Combine(testing::Values("engine=virtual", "engine=threads",
                                     "engine=processes",
                                     "engine=processes transport=tcp",
                                     "engine=processes "
                                     "transport=shared_memory"),
                     testing::Values("'cuda:1'", "['cpu', 'cuda:1', 'cpu']")));

TEST_F(OnGpu, NumbersAreThoseOfTheCpu) {
  for (const MethodUnderTest& method : methods()) {
    const std::string lines = fmt::format(
        "turns = 3\nblocks = 3\n{}boundary = {}\n", kMlp, method.boundary);
    EXPECT_LT(distance(trained_on("cpu", lines), trained_on("cuda", lines)),
              1e-4)
        << method.name;
  }
}

}  // namespace sluice::methods_on_gpu_test
