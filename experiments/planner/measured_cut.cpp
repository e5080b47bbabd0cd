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

/// All layers are measured twice, and may take long.
constexpr RehearsalOptions kFewTurns = {.warm_up = 1, .measured = 3};

double seconds_of_turn(const BlockCosts& block) {
  return block.seconds[Op::forward] + op_seconds(block, Op::backward) +
         block.seconds[Op::update] + block.seconds[Op::learn] +
         block.seconds[Op::learn_input];
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

  CutSeconds measured(const Partition& ranges) const {
    ConfigNode config = config_;
    config.set("blocks", to_config(ranges));
    CutSeconds cut{.ranges = ranges};
    for (const Rehearsal& block : rehearse(made(config), kFewTurns))
      cut.blocks.push_back(seconds_of_turn(block.seconds));
    return cut;
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
  const Experiment own = cuts.by_layer({});
  const RunPlan& plan = own.plans.front();
  const std::vector<Rehearsal> with = rehearse(own, kFewTurns);
  std::vector<Rehearsal> without;
  if (has_head(plan, 0))
    without = rehearse(cuts.by_layer(plain_boundary()), kFewTurns);
  std::vector<LayerSeconds> layers;
  for (std::size_t k = 0; k < with.size(); ++k) {
    const BlockCosts& mine = with[k].seconds;
    LayerSeconds layer{
        .name = own.model.layers[k].name,
        .as_last = mine.seconds[Op::learn] + mine.seconds[Op::learn_input]};
    if (has_head(plan, k) && !without.empty())
      layer.as_last +=
          std::max(0.0, op_seconds(mine, Op::backward) -
                            op_seconds(without[k].seconds, Op::backward));
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
  cut.by_operations = cuts.measured(balanced(own.blocks(), own.model));
  const Partition best = balanced(own.blocks(), costs);
  cut.by_times = best == cut.by_operations.ranges ? cut.by_operations
                                                  : cuts.measured(best);
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
