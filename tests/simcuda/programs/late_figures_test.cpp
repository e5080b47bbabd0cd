// Losses and accuracies that a GPU computes come late, and are those of the
// CPU: in order, before an evaluation, and without waits of the host.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/runs/sinks/divergence.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::late_figures_test {

constexpr const char* kLines =
    "blocks = 2\nmodel = {hidden = [24, 20, 16], dropout = 0.2}\n"
    "boundary = {policy = 'local_loss'}\n"
    "optimizer = {lr = 0.05, clip = {norm = 1.0}}\n";

/// Turn, loss, accuracy.
using Figures3 =
    std::tuple<std::int64_t, std::optional<double>, std::optional<double>>;
using BlockFigures = std::map<int, std::vector<Figures3>>;

class RecordList final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto train = record.as<records::Train>()) {
      trained[train->block].emplace_back(train->turn, train->loss,
                                         train->accuracy);
      ++count;
    }
    if (record.is<records::Evaluation>()) before_evaluation = count;
  }

  BlockFigures trained;
  std::size_t count = 0;
  std::size_t before_evaluation = 0;
};

std::shared_ptr<RecordList> trained_records(const std::string& device,
                                            int turns, bool evaluates = true,
                                            const std::string& lines = kLines) {
  Experiment experiment = small_experiment(
      fmt::format("device = '{}'\nturns = {}\n{}", device, turns, lines));
  experiment.length.checkpoint_every = {};
  if (!evaluates) experiment.length.evaluation_batches = 0;
  prepare_process(experiment);
  auto kept = std::make_shared<RecordList>();
  Training training(experiment, kept);
  training.train();
  return kept;
}

TEST(LateFigures, AreThoseOfTheCpuInTheirOrder) {
  const auto cpu = trained_records("cpu", 20);
  const auto gpu = trained_records("cuda:0", 20);
  EXPECT_EQ(cpu->count, 40U);
  EXPECT_TRUE(gpu->trained == cpu->trained);
  EXPECT_TRUE(std::get<1>(gpu->trained[2].back()).has_value());
  EXPECT_FALSE(gpu->trained[2].front() == gpu->trained[2].back());
}

/// The norm goes from block to block as a tensor of the GPU.
TEST(LateFigures, FiguresOfAModelThatIsClippedAsAWholeAreThoseOfTheCpu) {
  const auto last_block = [](const std::string& device,
                             const std::string& scope) {
    const std::string lines = fmt::format(
        "blocks = 3\nmodel = {{hidden = [24, 20, 16]}}\n"
        "boundary = {{policy = 'backprop'}}\n"
        "optimizer = {{lr = 0.1, clip = {{norm = 0.2, scope = '{}'}}}}\n",
        scope);
    return trained_records(device, 20, true, lines)->trained[3];
  };
  const std::vector<Figures3> gpu = last_block("cuda:0", "model");
  EXPECT_EQ(gpu.size(), 20U);
  EXPECT_TRUE(gpu == last_block("cpu", "model"));
  EXPECT_FALSE(gpu == last_block("cuda:0", "block"));
}

TEST(LateFigures, AreAllThereBeforeAnEvaluation) {
  EXPECT_EQ(trained_records("cuda:0", 20)->before_evaluation, 40U);
}

std::int64_t waits_in(int turns) {
  const std::int64_t before = simcuda::waits_of_this_thread();
  trained_records("cuda:0", turns, /*evaluates=*/false);
  return simcuda::waits_of_this_thread() - before;
}

/// At the run's end, and when a grant saves, the host waits for a few.
TEST(LateFigures, AreReadWithoutWaitsOfTheHost) {
  EXPECT_LT(waits_in(60) - waits_in(20), 20);
}

/// How a run ends whose loss becomes none.
std::string end_of_diverging(const std::string& device) {
  const TemporaryFolder folder;
  const std::string config = folder.path() + "/config.toml";
  std::ofstream(config) << fmt::format(
      "device = '{}'\nblocks = 1\nmodel = {{hidden = [24, 20]}}\n"
      "data = {{train = 320, test = 64}}\nbatch_size = 32\nthreads = 1\n"
      "turns = 40\nengine = 'virtual'\noptimizer = {{lr = 1e20}}\n",
      device);
  const Outcome run = shell(fmt::format(
      "{} run {} --dir {}/run", SLUICE_SIM_PROGRAM, config, folder.path()));
  EXPECT_EQ(run.status, kDivergedStatus) << run.text;
  std::smatch found;
  const std::regex line("the loss of block 1 became [a-z-]+ in turn [0-9]+");
  EXPECT_TRUE(std::regex_search(run.text, found, line)) << run.text;
  return found.str();
}

TEST(LateFigures, ThatAreNoNumbersEndTheRunAsOnTheCpu) {
  EXPECT_EQ(end_of_diverging("cuda:0"), end_of_diverging("cpu"));
}

}  // namespace sluice::late_figures_test
