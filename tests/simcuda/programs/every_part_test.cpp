// Issue 56, point 2: the head `man` kept statistics in a layer that was no
// module of its own, so they neither moved to the GPU nor were saved. Each part
// that a config can name trains on the simulated GPU, which refuses operations
// over two devices; what it holds there has a name in a checkpoint.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/runs/run.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/training.h"
#include "tests/simcuda/programs/part_lines.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::every_part_test {

namespace fs = std::filesystem;

class EveryPart : public testing::TestWithParam<ListedPart> {
 protected:
  /// Config of the part on the first GPU.
  std::string lines(const std::string& keys) const {
    return keys + "device = 'cuda:0'\nengine = 'virtual'\n" +
           lines_with(GetParam(), folder_.path());
  }
  std::string folder(const std::string& name) const {
    return folder_.path() + "/" + name;
  }

 private:
  const TemporaryFolder folder_;
};

/// Trains to turn 6, with a checkpoint at turn 3.
void train(const std::string& lines, const std::string& folder, bool resume) {
  StopSignals signals;
  run(small_experiment(lines),
      {.folder = folder, .resume = resume, .quiet = true}, signals);
}

TEST_P(EveryPart, ContinuesFromACheckpointWithTheBitsOfAWholeRun) {
  const std::string keys =
      "turns = 6\nevaluate_every = 0\ncheckpoint = {every_turns = 3, keep = "
      "2}\n";
  const std::string checkpoints = folder("run") + "/checkpoints";
  const std::string end = checkpoint_folder(checkpoints, 6);
  train(lines(keys), folder("run"), /*resume=*/false);
  const NamedTensors weights = load_weights(end);
  const NamedTensors state = load_state(end);
  // As a kill in turn 5 leaves it.
  fs::remove(folder("run") + "/done");
  fs::remove_all(end);
  train(lines(keys), folder("run"), /*resume=*/true);
  EXPECT_FALSE(weights.empty());
  EXPECT_EQ(difference(weights, load_weights(end)), "");
  EXPECT_EQ(difference(state, load_state(end)), "");
}

std::int64_t live_bytes() {
  return simcuda::counts().live_bytes;
}

/// Memory that the tensors share, each allocation once, as large as LibTorch's
/// allocator makes it.
std::int64_t bytes_of(const std::vector<NamedTensors>& all) {
  constexpr std::size_t kUnit = 512;
  std::map<const void*, std::size_t> allocations;
  for (const NamedTensors& tensors : all)
    for (const auto& [name, tensor] : tensors)
      if (tensor.is_cuda())
        allocations[tensor.storage().data()] =
            (tensor.storage().nbytes() + kUnit - 1) / kUnit * kUnit;
  std::size_t sum = 0;
  for (const auto& [address, bytes] : allocations) sum += bytes;
  return static_cast<std::int64_t>(sum);
}

/// Parts that hold what they write before each use, or draw from the seed.
const std::map<std::string, const char*> kWithoutName = {
    {"extrapolate", "writes a copy of its weights before each use"},
    {"power_sgd", "draws its first factors"}};

TEST_P(EveryPart, HoldsNothingOnTheGpuAtFirstThatHasNoNameInACheckpoint) {
  if (const auto found = kWithoutName.find(GetParam().name);
      found != kWithoutName.end())
    GTEST_SKIP() << found->second;
  const Experiment experiment = small_experiment(lines(""));
  prepare_process(experiment);
  const std::int64_t before = live_bytes();
  const Training training(experiment);
  std::vector<NamedTensors> named;
  for (const auto& seat : training.workers) {
    named.push_back(seat->weights());
    named.push_back(seat->copied());
    named.push_back(seat->state());
  }
  EXPECT_EQ(live_bytes() - before, bytes_of(named));
}

TEST_P(EveryPart, HasItsWeightsOnTheGpuAfterThreeTurns) {
  Training training(small_experiment(lines("turns = 3\n")));
  training.train();
  for (const auto& seat : training.workers) {
    EXPECT_FALSE(seat->weights().empty());
    for (const NamedTensors& tensors : {seat->weights(), seat->copied()})
      for (const auto& [name, tensor] : tensors)
        EXPECT_EQ(tensor.device(), seat->device()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Listed, EveryPart, testing::ValuesIn(listed_parts()),
                         [](const auto& info) {
                           return info.param.kind + "_" + info.param.name;
                         });

}  // namespace sluice::every_part_test
