// data.on_device: batches that are gathered on the GPU have the bits of those
// that the CPU makes.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/order/gathered.h"
#include "experiments/data/order/sample_source.h"
#include "experiments/runs/run.h"
#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/training.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::on_device_test {

using testing::HasSubstr;

constexpr const char* kImages =
    "data = {train = 320, test = 64, validation = 0.25, evaluate_training = "
    "40, label_noise = 0.1, on_device = VALUE}\n"
    "model = {hidden = [24, 20], dropout = 0.2}\nblocks = 2\n";

void replace_value(std::string& lines, const std::string& value) {
  const std::string key = "VALUE";
  lines.replace(lines.find(key), key.size(), value);
}

class OnDevice : public testing::Test {
 protected:
  std::string text() const {
    std::string letters;
    for (int i = 0; i < 2000; ++i)
      letters += static_cast<char>('a' + i * i % 23);
    const std::string path = folder_.path() + "/text.txt";
    std::ofstream(path) << letters;
    return fmt::format(
        "data = {{name = 'text', context = 16, file = '{}', on_device = "
        "VALUE}}\nblocks = 2\nmodel = {{name = 'gpt', layers = 2, width = 16, "
        "heads = 2}}\n",
        path);
  }

  /// Results of a run of 12 turns, with an evaluation at its end.
  struct TrainingRun {
    NamedTensors weights;
    double loss = 0;
  };
  TrainingRun trained(std::string lines, const std::string& value,
                      const std::string& keys = "",
                      const std::string& name = "", bool resume = false) {
    replace_value(lines, value);
    const std::string folder =
        folder_.path() + "/" + (name.empty() ? std::to_string(++runs_) : name);
    StopSignals signals;
    const RunResult result = run(
        small_experiment("batch_size = 24\nturns = 12\n" + keys +
                         "device = 'cuda:0'\nevaluate_every = 0.5\n" + lines),
        {.folder = folder,
         .resume = resume,
         .quiet = true,
         .program = SLUICE_SIM_PROGRAM},
        signals);
    return {load_weights(checkpoint_folder(folder + "/checkpoints", 12)),
            result.evaluation ? result.evaluation->loss : -1};
  }

  void expect_equal_runs(const std::string& lines,
                         const std::string& keys = "") {
    const TrainingRun there = trained(lines, "true", keys);
    const TrainingRun here = trained(lines, "false", keys);
    EXPECT_EQ(difference(here.weights, there.weights), "");
    EXPECT_EQ(here.loss, there.loss);
    EXPECT_GT(there.loss, 0);
  }

  const TemporaryFolder folder_;

 private:
  int runs_ = 0;
};

TEST_F(OnDevice, RunsOnImagesHaveTheSameBits) {
  for (const char* engine : {"virtual", "threads", "processes"})
    expect_equal_runs(kImages, fmt::format("engine = '{}'\n", engine));
}

TEST_F(OnDevice, RunsOnTextsHaveTheSameBits) {
  expect_equal_runs(text(), "engine = 'virtual'\n");
}

TEST_F(OnDevice, ReplicasAndMicroBatchesHaveTheSameBits) {
  expect_equal_runs(kImages, "engine = 'threads'\nreplicas = {count = 2}\n");
  expect_equal_runs(kImages,
                    "engine = 'virtual'\ndrop_last = true\n"
                    "pipeline = {micro_batches = 2}\n");
}

TEST_F(OnDevice, PhasesHaveTheSameBits) {
  expect_equal_runs(kImages,
                    "engine = 'virtual'\ntimetable = [{turn = 5, boundary = "
                    "{policy = 'local_loss'}}]\n");
}

TEST_F(OnDevice, ImagesLaidOutByChannelsHaveTheSameBits) {
  expect_equal_runs(
      "data = {train = 320, test = 64, on_device = VALUE}\nblocks = 2\n"
      "model = {name = 'small_conv', channels = [4, 4], hidden = 8}\n",
      "engine = 'virtual'\nmemory_format = 'channels_last'\n");
}

TEST_F(OnDevice, ARunGoesOnWithTheSameBitsWithoutIt) {
  const TrainingRun whole = trained(kImages, "true", "engine = 'virtual'\n");
  std::string lines = kImages;
  replace_value(lines, "true");
  StopSignals signals;
  run(small_experiment("batch_size = 24\nturns = 7\ndrain = false\nengine = "
                       "'virtual'\ndevice = 'cuda:0'\nevaluate_every = 0.5\n" +
                       lines),
      {.folder = folder_.path() + "/parts", .quiet = true}, signals);
  const TrainingRun rest =
      trained(kImages, "false", "engine = 'virtual'\n", "parts", true);
  EXPECT_EQ(difference(whole.weights, rest.weights), "");
}

/// Bytes on the GPU of seats that are made with these lines.
std::int64_t bytes_with(std::string lines, const std::string& value,
                        const std::string& keys = "") {
  replace_value(lines, value);
  const Experiment experiment =
      small_experiment(keys + "device = 'cuda:0'\n" + lines);
  prepare_process(experiment);
  const std::int64_t before = simcuda::counts().live_bytes;
  const Training training(experiment);
  return simcuda::counts().live_bytes - before;
}

TEST_F(OnDevice, AutoKeepsADataSetThatFitsOnTheGpuOnceForAllReplicas) {
  constexpr std::int64_t kBytes = (320 + 64) * 28 * 28;
  const std::string two = "replicas = {count = 2}\n";
  for (const std::string& keys : {std::string(), two}) {
    const std::int64_t more = bytes_with(kImages, "'auto'", keys) -
                              bytes_with(kImages, "false", keys);
    EXPECT_GE(more, kBytes);
    EXPECT_LT(more, kBytes + 20'000) << keys;
  }
}

TEST_F(OnDevice, AutoLeavesADataSetOnTheHostThatTakesMoreThanAQuarter) {
  const c10::Device gpu(c10::DeviceType::CUDA, 0);
  const auto [free, all] =
      at::getDeviceAllocator(gpu.type())->getMemoryInfo(gpu.index());
  const auto quarter = static_cast<std::int64_t>(free / 4);
  EXPECT_TRUE(fit_on(gpu, quarter));
  EXPECT_FALSE(fit_on(gpu, quarter + 1));
}

TEST_F(OnDevice, AutoLeavesImagesThatChangeOnTheHost) {
  const std::string augmented =
      "data = {train = 320, test = 64, augment = {crop = 2}, on_device = "
      "VALUE}\n";
  EXPECT_LT(bytes_with(augmented, "'auto'") - bytes_with(augmented, "false"),
            320 * 28 * 28);
}

std::string refusal_of(const std::string& lines) {
  try {
    const Training training(small_experiment(lines));
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(OnDevice, TrueIsRefusedInWordsWhereTheCpuMakesTheBatches) {
  const std::string there = "device = 'cuda:0'\n";
  EXPECT_THAT(refusal_of("data = {on_device = true}\n"),
              HasSubstr("block 1 computes on the CPU"));
  EXPECT_THAT(refusal_of(there + "data = {augment = {flip = true}, on_device = "
                                 "true}\n"),
              HasSubstr("data.augment and data.mixup change training images"));
  EXPECT_THAT(
      refusal_of(there + "blocks = 2\nmodel = {name = 'ff_mlp'}\nloss = {name "
                         "= 'goodness'}\nboundary = {policy = 'local_loss', "
                         "head = {name = 'forward_forward'}}\ndata = "
                         "{on_device = true}\n"),
      HasSubstr("trains on pairs of samples"));
  EXPECT_THAT(
      refusal_of(there + "blocks = 2\nmodel = {name = 'resnet', depth = 8, "
                         "width = 4}\nboundary = {policy = 'local_loss', head "
                         "= {name = 'infopro'}}\ndata = {on_device = true}\n"),
      HasSubstr("inputs as they were before normalisation"));
  EXPECT_THAT(refusal_of("data = {on_device = 'no'}\n"),
              HasSubstr("must be true, false or \"auto\""));
}

}  // namespace sluice::on_device_test
