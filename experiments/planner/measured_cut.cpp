#include "experiments/planner/measured_cut.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/candidates.h"
#include "experiments/planner/recut.h"
#include "experiments/runs/measuring/rehearsal.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "modules/layer_costs.h"

namespace sluice::planner {
namespace {

/// A machine is faster at one time than at another: rounds in turns, so that no
/// layer has a slow time for itself.
constexpr int kRounds = 3;
constexpr RehearsalOptions kFewTurns = {.warm_up = 1, .measured = 1};

double seconds_of_turn(const BlockCosts& block) {
  return block.seconds[Op::forward] + op_seconds(block, Op::backward) +
         block.seconds[Op::update] + block.seconds[Op::learn] +
         block.seconds[Op::learn_input];
}

using CostsOfBlocks = std::vector<BlockCosts>;

/// For each block the round in which its turn took the median time.
CostsOfBlocks medians_of(const std::vector<std::vector<Rehearsal>>& rounds) {
  CostsOfBlocks medians;
  for (std::size_t k = 0; k < rounds.front().size(); ++k) {
    CostsOfBlocks costs;
    for (const auto& round : rounds) costs.push_back(round[k].seconds);
    std::sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) {
      return seconds_of_turn(a) < seconds_of_turn(b);
    });
    medians.push_back(costs[costs.size() / 2]);
  }
  return medians;
}

/// Costs of the blocks of each, measured in turns.
std::vector<CostsOfBlocks> measured_in_turns(
    const std::vector<Experiment>& experiments) {
  std::vector<std::vector<std::vector<Rehearsal>>> rounds(experiments.size());
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < experiments.size(); ++i)
      rounds[i].push_back(rehearse(experiments[i], kFewTurns));
  std::vector<CostsOfBlocks> all;
  all.reserve(rounds.size());
  for (const auto& each : rounds) all.push_back(medians_of(each));
  return all;
}

/// Measures cuts of a config's model.
class Cuts {
 public:
  Cuts(const ConfigNode& config, const std::string& data_root)
      : config_(config),
        data_root_(data_root),
        own_(read_experiment(config, data_root)) {
    if (own_.blocks() == 1)
      throw UserError(
          "--cut: blocks = 1 has no cut: set blocks to how many there shall "
          "be");
    prepare_process(own_);
    at::set_num_threads(static_cast<int>(own_.threads));
  }

  const Experiment& own() const { return own_; }

  /// A block for each layer, with these boundaries; empty: the config's.
  Experiment by_layer(const ConfigNode& boundary) const {
    const auto layers = std::ssize(own_.model.layers);
    return made(config_with_method(config_, {.boundary = boundary}, layers,
                                   own_.ranges));
  }

  std::vector<CutSeconds> measured(const std::vector<Partition>& cuts) const {
    std::vector<Experiment> experiments;
    for (const Partition& ranges : cuts) {
      ConfigNode config = config_;
      config.set("blocks", to_config(ranges));
      experiments.push_back(made(config));
    }
    std::vector<CutSeconds> all;
    for (const CostsOfBlocks& costs : measured_in_turns(experiments)) {
      CutSeconds cut{.ranges = cuts[all.size()]};
      for (const BlockCosts& block : costs)
        cut.blocks.push_back(seconds_of_turn(block));
      all.push_back(std::move(cut));
    }
    return all;
  }

 private:
  Experiment made(const ConfigNode& config) const {
    Experiment experiment = read_experiment(config, data_root_);
    experiment.data = own_.data;
    experiment.threads = own_.threads;
    return experiment;
  }

  const ConfigNode& config_;
  const std::string& data_root_;
  const Experiment own_;
};

ConfigNode plain_boundary() {
  ConfigNode boundary{.value = ConfigNode::Table{}};
  boundary.set("policy", {.value = std::string("backprop")});
  return boundary;
}

/// What heads take is what a backward takes longer with them than without.
std::vector<LayerSeconds> measured_layers(const Cuts& cuts) {
  std::vector<Experiment> experiments = {cuts.by_layer({})};
  const RunPlan plan = experiments[0].plans.front();
  if (has_head(plan, 0)) experiments.push_back(cuts.by_layer(plain_boundary()));
  const std::vector<CostsOfBlocks> measured = measured_in_turns(experiments);
  const CostsOfBlocks& with = measured.front();
  const CostsOfBlocks& without = measured.back();
  std::vector<LayerSeconds> layers;
  for (std::size_t k = 0; k < with.size(); ++k) {
    const BlockCosts& mine = with[k];
    LayerSeconds layer{
        .name = cuts.own().model.layers[k].name,
        .as_last = mine.seconds[Op::learn] + mine.seconds[Op::learn_input]};
    if (has_head(plan, k))
      layer.as_last += std::max(0.0, op_seconds(mine, Op::backward) -
                                         op_seconds(without[k], Op::backward));
    layer.work = seconds_of_turn(mine) - layer.as_last;
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string line_of(const Partition& ranges) {
  ConfigNode config{.value = ConfigNode::Table{}};
  config.set("blocks", to_config(ranges));
  std::string line = to_toml(config);
  while (line.ends_with('\n')) line.pop_back();
  return line;
}

std::string row_of(const char* how, const CutSeconds& cut) {
  std::string blocks;
  for (const double seconds : cut.blocks)
    blocks +=
        fmt::format("{}{:.2f}", blocks.empty() ? "" : ", ", 1e3 * seconds);
  return fmt::format("by {}: {}\n  {} ms a turn; balance {:.2f}\n", how,
                     line_of(cut.ranges), blocks, cut.balance());
}

}  // namespace

double CutSeconds::slowest() const {
  return *std::max_element(blocks.begin(), blocks.end());
}

double CutSeconds::balance() const {
  const double all = std::accumulate(blocks.begin(), blocks.end(), 0.0);
  return all / (slowest() * static_cast<double>(blocks.size()));
}

MeasuredCut measure_cut(
    const ConfigNode& config, const std::string& data_root,
    const std::function<void(const std::string&)>& progress) {
  const Cuts cuts(config, data_root);
  const Experiment& own = cuts.own();
  progress(fmt::format("measuring {} layers", own.model.layers.size()));
  MeasuredCut cut{.layers = measured_layers(cuts)};
  std::vector<LayerCost> costs;
  for (const LayerSeconds& layer : cut.layers)
    costs.push_back({.work = layer.work, .as_last = layer.as_last});
  progress("measuring the blocks of two cuts");
  const Partition by_operations = balanced(own.blocks(), own.model);
  const Partition by_times = balanced(own.blocks(), costs);
  std::vector<Partition> both = {by_operations};
  if (by_times != by_operations) both.push_back(by_times);
  const std::vector<CutSeconds> measured = cuts.measured(both);
  cut.by_operations = measured.front();
  cut.by_times = measured.back();
  return cut;
}

std::string text_of(const MeasuredCut& cut) {
  std::string text = "layer  ms a turn  more as the last of a block\n";
  for (std::size_t i = 0; i < cut.layers.size(); ++i) {
    const LayerSeconds& layer = cut.layers[i];
    text += fmt::format("{:>5}  {:>9.3f}  {:>9.3f}  {}\n", i, 1e3 * layer.work,
                        1e3 * layer.as_last, layer.name);
  }
  text += "\nWhole blocks, measured:\n" +
          row_of("operations", cut.by_operations) +
          row_of("times", cut.by_times);
  const double gain = cut.by_operations.slowest() / cut.by_times.slowest();
  if (cut.by_times.ranges == cut.by_operations.ranges)
    return text + "Both are the same cut.\n";
  return text +
         fmt::format(
             "Cut by times, the slowest block is {:.2f} times as fast: write "
             "that line into the config\n",
             gain);
}

}  // namespace sluice::planner
