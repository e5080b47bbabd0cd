// `sluice plan`: who does what when, and how fast that is, before anything
// runs.
#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "experiments/assembly.h"
#include "experiments/calibration.h"
#include "experiments/commands.h"
#include "experiments/experiment.h"
#include "lib/base/error.h"
#include "lib/schedules/drawing.h"
#include "lib/schedules/speed.h"
#include "lib/schedules/trace.h"

namespace sluice {
namespace {

/// Of the model's own, without heads.
std::int64_t parameters_of(const Model& model, const LayerRange& range) {
  std::int64_t count = 0;
  for (std::int64_t i = range.first; i <= range.last; ++i)
    for (const at::Tensor& parameter :
         model.layers[static_cast<std::size_t>(i)].make()->parameters())
      count += parameter.numel();
  return count;
}

void print_blocks(const Experiment& experiment) {
  double total = 0;
  for (const LayerSpec& layer : experiment.model.layers) total += layer.flops;
  for (int block = experiment.blocks(); block >= 1; --block) {
    const auto index = static_cast<std::size_t>(block) - 1;
    const LayerRange range = experiment.ranges[index];
    double flops = 0;
    std::string names;
    for (std::int64_t i = range.first; i <= range.last; ++i) {
      const LayerSpec& layer =
          experiment.model.layers[static_cast<std::size_t>(i)];
      flops += layer.flops;
      names += (names.empty() ? "" : ", ") + layer.name;
    }
    fmt::print(
        "block {}  {:4.1f} % of the work ({:.4g} MFLOP forward)  {} parameters "
        " "
        "layers {}-{}: {}\n",
        block, total > 0 ? 100 * flops / total : 0, 2e-6 * flops,
        parameters_of(experiment.model, range), range.first, range.last, names);
    if (block > 1)
      fmt::print("   boundary {}: {}\n", block - 1,
                 experiment.phases.front()[index - 1].name);
  }
}

std::vector<std::vector<Action>> read_actions(const std::string& path,
                                              int blocks) {
  std::ifstream file(path);
  if (!file) throw UserError("{}: can't be read", path);
  std::vector<std::vector<Action>> actions;
  for (std::string line; std::getline(file, line);)
    actions.push_back(actions_from_text(line));
  if (std::ssize(actions) != blocks)
    throw UserError("{}: {} lines of actions, the model has {} blocks", path,
                    actions.size(), blocks);
  return actions;
}

std::vector<std::vector<Action>> planned_actions(const Experiment& experiment,
                                                 std::int64_t turns) {
  Grant grant = sample_grant(experiment.plans.front(), turns);
  grant.evaluation_batches = 0;
  grant.checkpoint = false;
  std::vector<std::vector<Action>> actions;
  for (const BlockPlan& plan : experiment.plans.front().blocks)
    actions.push_back(actions_of(plan, grant));
  return actions;
}

/// The options of the command are those of the config's section.
Experiment timed_experiment(const PlanArguments& arguments) {
  ConfigArguments config = arguments.config;
  for (const auto& [key, text] : arguments.lists)
    if (!text.empty())
      config.overrides.push_back(fmt::format("virtual.{}=[{}]", key, text));
  for (const auto& [key, text] : arguments.numbers)
    if (!text.empty())
      config.overrides.push_back(fmt::format("virtual.{}={}", key, text));
  std::string slow;
  for (const std::string& text : arguments.slow)
    slow += fmt::format("{}'{}'", slow.empty() ? "" : ", ", text);
  if (!slow.empty())
    config.overrides.push_back(fmt::format("virtual.slow=[{}]", slow));
  if (arguments.calibrate)
    config.overrides.emplace_back("virtual.calibrate=true");
  return experiment_of(config);
}

Costs costs_to_plan_with(const Experiment& experiment) {
  if (experiment.calibrate) {
    prepare_process(experiment);
    return calibrated(experiment);
  }
  Costs costs = experiment.costs;
  if (takes_time({.blocks = costs.blocks})) return costs;
  for (BlockCosts& block : costs.blocks) {
    block.forward = 1;
    block.backward = 2;
  }
  return costs;
}

/// The shortest forward or backward; where they are too uneven for that, what
/// makes the drawing fit.
double unit_of(const Costs& costs, double end) {
  constexpr double kEven = 8;
  constexpr double kColumns = 32;
  double shortest = end;
  double longest = 0;
  for (const BlockCosts& block : costs.blocks)
    for (const double seconds : {block.forward, block.backward}) {
      if (seconds == 0) continue;
      shortest = std::min(shortest, seconds * block.slowness);
      longest = std::max(longest, seconds * block.slowness);
    }
  const double unit = longest <= kEven * shortest ? shortest : end / kColumns;
  return unit > 0 ? unit : 1;
}

void print_timeline(const std::vector<TimedAction>& timeline,
                    const Experiment& experiment, const Costs& costs) {
  double end = 0;
  for (const TimedAction& timed : timeline) end = std::max(end, timed.end);
  const double unit = unit_of(costs, end);
  fmt::print(
      "\n{}\nF forward, B backward, U update of a batch, L what a synthesizer "
      "learns from it;\n- busy, . waiting; a column is {:.4g} s, a message "
      "takes "
      "{:g} s. It ends after {:.4g} s.\n",
      draw_timeline(timeline, experiment.blocks(), unit), unit, costs.latency,
      end);
}

void print_costs(const Costs& costs) {
  fmt::print(
      "\nblock  forward s  backward s   update s    learn s     head s\n");
  for (std::size_t k = 0; k < costs.blocks.size(); ++k) {
    const BlockCosts& block = costs.blocks[k];
    fmt::print("{:>5}  {:>9.4g}  {:>10.4g}  {:>9.4g}  {:>9.4g}  {:>9.4g}{}\n",
               k + 1, block.forward, block.backward, block.update, block.learn,
               block.head,
               block.slowness == 1 ? std::string()
                                   : fmt::format("  x {:g}", block.slowness));
  }
}

void print_speed(const Experiment& experiment, const Costs& costs) {
  const Speed speed =
      steady_speed(experiment.plans.front(), costs, experiment.capacities);
  fmt::print(
      "\nSteady state: {:.4g} s a turn, {:.4g} samples/s, {:.2f} x one block "
      "that does all the work ({:.4g} s)\n",
      speed.seconds_per_turn,
      static_cast<double>(experiment.batch_size) / speed.seconds_per_turn,
      speed.speed_up, seconds_in_one_block(costs, experiment.plans.front()));
  for (std::size_t k = speed.utilisation.size(); k >= 1; --k)
    fmt::print("block {}  computes {:5.1f} % of the time\n", k,
               100 * speed.utilisation[k - 1]);
}

void write_trace(const std::string& path, const RunPlan& plan,
                 const std::vector<TimedAction>& timeline) {
  std::ofstream file(path);
  if (!file) throw UserError("--trace {}: can't be written", path);
  TraceWriter trace(file, {plan});
  for (const TimedAction& timed : timeline) trace.write(timed);
}

}  // namespace

void plan_command(const PlanArguments& arguments) {
  const Experiment experiment = timed_experiment(arguments);
  const bool by_hand = !arguments.actions_file.empty();
  const auto actions =
      by_hand ? read_actions(arguments.actions_file, experiment.blocks())
              : planned_actions(experiment, arguments.turns);
  if (arguments.list) {
    simulate(experiment.plans.front(), {}, experiment.capacities, actions);
    fmt::print("{}", list_actions(actions));
    return;
  }
  const Costs costs = costs_to_plan_with(experiment);
  const auto timeline =
      simulate(experiment.plans.front(), costs, experiment.capacities, actions);
  print_blocks(experiment);
  print_timeline(timeline, experiment, costs);
  print_costs(costs);
  if (!by_hand) print_speed(experiment, costs);
  if (!arguments.trace.empty())
    write_trace(arguments.trace, experiment.plans.front(), timeline);
}

}  // namespace sluice
