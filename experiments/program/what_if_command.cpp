// `sluice what-if`: a recorded run on other links, devices or in other blocks.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/comparison.h"
#include "experiments/planner/machine.h"
#include "experiments/planner/recorded_run.h"
#include "experiments/planner/recut.h"
#include "experiments/program/commands.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice {
namespace {

/// A recorded run, and what its trace says.
struct RecordedExperiment {
  ConfigNode config = {};
  Experiment experiment = {};
  planner::RecordedRun run = {};
};

RecordedExperiment read_recorded(const std::string& folder) {
  const std::string config = config_of_run(folder);
  check_is_run(folder);
  const std::string trace = folder + "/trace.json";
  if (!std::filesystem::exists(trace))
    throw UserError(
        "{}: has no trace.json; run it with engine=threads or "
        "engine=processes, and with trace.turns above 0",
        folder);
  RecordedExperiment recorded{.config = read_config_file(config)};
  recorded.experiment = read_experiment(recorded.config, data_root());
  if (recorded.experiment.replicas.are_uneven())
    throw UserError(
        "{}: replicas.count = {}: what-if takes the replicas of all blocks to "
        "be as many, and each to do the same; `sluice plan` knows lists",
        folder, recorded.experiment.replicas.count_text());
  recorded.run = planner::recorded_run(
      read_trace(trace, std::numeric_limits<std::int64_t>::max()),
      recorded.experiment.plans.front(), trace,
      recorded.experiment.engine != Engine::virtual_time &&
          !runs_free(recorded.experiment.plans.front()));
  return recorded;
}

double mean_time(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.) /
         static_cast<double>(values.size());
}

/// Costs of each block, each number the mean over its replicas.
std::vector<BlockCosts> mean_over_replicas(const std::vector<BlockCosts>& seats,
                                           std::size_t depth) {
  std::vector<BlockCosts> blocks(seats.begin(),
                                 seats.begin() + static_cast<long>(depth));
  for (std::size_t i = depth; i < seats.size(); ++i)
    for (const OpRow& row : op_rows())
      blocks[i % depth].seconds[row.op] += seats[i].seconds[row.op];
  const auto replicas =
      static_cast<double>(seats.size()) / static_cast<double>(depth);
  for (BlockCosts& block : blocks)
    for (const OpRow& row : op_rows()) block.seconds[row.op] /= replicas;
  return blocks;
}

/// Costs of each block, whose replicas count as alike, and vary as the first
/// does. The virtual clock's links are in the config, real ones in the trace.
Costs costs_of(const RecordedExperiment& recorded) {
  const Experiment& experiment = recorded.experiment;
  const auto depth = static_cast<std::size_t>(experiment.blocks());
  Costs costs{.blocks = mean_over_replicas(recorded.run.blocks, depth),
              .bytes = experiment.costs.bytes,
              .variation = recorded.run.variation};
  costs.variation.resize(std::min(costs.variation.size(), depth));
  costs.exchange_bytes = experiment.costs.exchange_bytes;
  if (experiment.engine == Engine::virtual_time) {
    costs.latency = experiment.costs.latency;
    costs.bandwidth = experiment.costs.bandwidth;
    costs.exchange_link = experiment.costs.exchange_link;
    return costs;
  }
  std::vector<double> latency = recorded.run.latency;
  latency.resize(std::min(latency.size(), depth - 1));
  costs.latency = mean_time(latency);
  for (const double each : latency) costs.links.push_back({.latency = each});
  return costs;
}

bool changes(const WhatIfArguments& arguments) {
  return !arguments.blocks.empty() || !arguments.machine.empty() ||
         !arguments.latency.empty() || !arguments.bandwidth.empty() ||
         !arguments.slow.empty();
}

/// The changed experiment: another cut, and options as [virtual] has them.
Experiment changed_experiment(const WhatIfArguments& arguments,
                              const RecordedExperiment& recorded) {
  ConfigNode config =
      arguments.blocks.empty()
          ? recorded.config
          : planner::cut_anew(recorded.config, arguments.blocks);
  const Costs& before = recorded.experiment.costs;
  ConfigNode clock;
  clock.value = ConfigNode::Table{};
  const bool is_virtual = recorded.experiment.engine == Engine::virtual_time;
  clock.set("latency", {.value = is_virtual ? before.latency : 0.});
  clock.set("bandwidth", {.value = is_virtual ? before.bandwidth : 0.});
  config.set("virtual", clock);
  if (!arguments.latency.empty())
    apply_override(config, "virtual.latency=" + arguments.latency);
  if (!arguments.bandwidth.empty())
    apply_override(config, "virtual.bandwidth=" + arguments.bandwidth);
  if (!arguments.slow.empty())
    apply_override(config, fmt::format("virtual.slow=['{}']",
                                       fmt::join(arguments.slow, "', '")));
  return read_and_tell(config);
}

/// Costs of the run with the changes asked for; all else stays as measured.
Costs changed_costs(const WhatIfArguments& arguments,
                    const RecordedExperiment& recorded,
                    const Experiment& changed) {
  Costs costs = costs_of(recorded);
  if (!arguments.blocks.empty()) {
    costs.blocks =
        planner::recut_costs(costs.blocks, recorded.experiment, changed);
    costs.variation =
        planner::recut_variation(costs.variation, recorded.experiment, changed);
    costs.links.clear();
  }
  costs.bytes = changed.costs.bytes;
  for (std::size_t k = 0; k < costs.blocks.size(); ++k)
    costs.blocks[k].slowness = changed.costs.blocks[k].slowness;
  if (!arguments.latency.empty()) costs.latency = changed.costs.latency;
  if (!arguments.bandwidth.empty()) costs.bandwidth = changed.costs.bandwidth;
  for (LinkCosts& link : costs.links) {
    if (!arguments.latency.empty()) link.latency = costs.latency;
    link.bandwidth = costs.bandwidth;
  }
  return costs;
}

Speed speed_at(const Experiment& experiment, const Costs& costs,
               const std::string& machine = "") {
  const RunPlan& plan = experiment.plans.front();
  Costs of_seats = by_seat(costs, plan);
  if (!machine.empty()) {
    const planner::Machine described = planner::read_machine(machine);
    if (described.computes())
      throw UserError(
          "--machine {}: its devices have flops, and the durations here are "
          "those of the run: give their speed over this machine's",
          machine);
    of_seats =
        planner::costs_on(described, std::move(of_seats), experiment.threads);
  }
  return planner::predicted_speed(plan, of_seats, experiment.capacities);
}

void print_line(const std::string& what, double seconds,
                const std::vector<double>& utilisation, double samples,
                const std::string& remark) {
  std::vector<std::string> parts;
  parts.reserve(utilisation.size());
  for (const double part : utilisation)
    parts.push_back(fmt::format("{:.0f}", 100 * part));
  std::string line = fmt::format(
      "{:<24}{:>9.2f} ms{:>11.4g}  {:<16}{}", what, 1e3 * seconds,
      samples / seconds, fmt::format("{}", fmt::join(parts, " ")), remark);
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

void print_blocks(const Costs& costs) {
  const bool exchanges = std::any_of(
      costs.blocks.begin(), costs.blocks.end(), [](const BlockCosts& block) {
        return block.seconds[Op::exchange] + block.seconds[Op::settle] > 0;
      });
  fmt::print("\nblock  forward ms  backward ms  update ms  learn ms{}\n",
             exchanges ? "  exchange ms" : "");
  for (std::size_t k = 0; k < costs.blocks.size(); ++k) {
    const BlockCosts& block = costs.blocks[k];
    const OpValues<double>& seconds = block.seconds;
    fmt::print(
        "{:>5}  {:>10.3f}  {:>11.3f}  {:>9.3f}  {:>8.3f}{}{}\n", k + 1,
        1e3 * seconds[Op::forward],
        1e3 * (op_seconds(block, Op::backward) + block.head),
        1e3 * seconds[Op::update],
        1e3 * (seconds[Op::learn] + seconds[Op::learn_input]),
        exchanges ? fmt::format("  {:>11.3f}", 1e3 * (seconds[Op::exchange] +
                                                      seconds[Op::settle]))
                  : "",
        block.slowness == 1 ? "" : fmt::format("  x {:g}", block.slowness));
  }
  for (std::size_t k = 0; k < costs.links.size(); ++k)
    fmt::print(
        "boundary {}: a message is there {:.3f} ms after what sends it{}\n",
        k + 1, 1e3 * costs.links[k].latency,
        costs.links[k].bandwidth > 0
            ? fmt::format(", and carried at {:.3g} bytes/s",
                          costs.links[k].bandwidth)
            : "");
}

}  // namespace

void what_if_command(const WhatIfArguments& arguments) {
  const RecordedExperiment recorded = read_recorded(arguments.folder);
  const Experiment& experiment = recorded.experiment;
  const double samples = samples_per_turn(experiment);
  const Costs costs = costs_of(recorded);
  const Speed same = speed_at(experiment, costs);
  const double measured = recorded.run.seconds_per_turn;
  const double off = same.seconds_per_turn / measured - 1;
  fmt::print(
      "{} in {} blocks{}, engine {}, turns {} to {} of its trace:\n\n"
      "{:<24}{:>12}{:>11}  {}\n",
      method_of(experiment), experiment.blocks(),
      experiment.replicas.count > 1
          ? fmt::format(", {} replicas", experiment.replicas.count)
          : "",
      name_of(experiment.engine), recorded.run.first_turn,
      recorded.run.end_turn - 1, "", "batch", "samples/s", "busy %");
  print_line("measured", measured, recorded.run.utilisation, samples, "");
  print_line("predicted, unchanged", same.seconds_per_turn, same.utilisation,
             samples, fmt::format("{:+.1f} % off", 100 * off));
  Costs changed_to = costs;
  if (changes(arguments)) {
    const Experiment changed = changed_experiment(arguments, recorded);
    changed_to = changed_costs(arguments, recorded, changed);
    const Speed then = speed_at(changed, changed_to, arguments.machine);
    print_line("predicted, changed", then.seconds_per_turn, then.utilisation,
               samples,
               fmt::format("{:.2f} x as fast as unchanged",
                           same.seconds_per_turn / then.seconds_per_turn));
  }
  print_blocks(changed_to);
  constexpr double kFar = 0.1;
  if (std::abs(off) > kFar)
    fmt::print(
        "\nThe simulator misses the recorded run by more than a tenth: other "
        "work on the\nmachine, more blocks than cores, or few turns in the "
        "trace. Trust ratios less.\n");
}

}  // namespace sluice
