// `sluice report`: what runs have shown, on a page and in tables.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/experiment.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/operations.h"
#include "experiments/program/commands.h"
#include "experiments/report/sections/report.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/exchange_traffic.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice {
namespace {

/// Number of turns over which the pipe's beginning and end, and windows of
/// accumulated batches, count as they do in a run.
constexpr std::int64_t kTurnsOfReport = 64;

/// Costs whose seconds are operations of a sample, and whose transits last as
/// many seconds as a message has bytes: schedules know what is done and sent.
Costs counting_costs(const Experiment& experiment) {
  Costs costs = planner::operations_of(experiment);
  costs.bandwidth = 1;
  costs.bytes = experiment.costs.bytes;
  return costs;
}

/// Operations of a turn on the longest chain of actions.
double sequential_operations(const Experiment& experiment, Costs costs) {
  costs.bandwidth = 0;
  const std::int64_t samples_of_batch =
      experiment.batch_size / experiment.micro_batches.count;
  for (BlockCosts& block : costs.blocks)
    block.slowness = static_cast<double>(samples_of_batch);
  return steady_speed(experiment.plans.front(), costs, experiment.capacities)
      .seconds_per_turn;
}

/// Bytes that all replicas send each other in the first so many turns.
std::function<double(std::int64_t turns)> bytes_of_exchanges(
    const Experiment& experiment) {
  if (experiment.replicas.count == 1) return nullptr;
  // Where each comes to a centre by itself, an exchange is of one replica.
  struct Part {
    ExchangeTraffic traffic;
    double bytes;
  };
  std::vector<Part> parts;
  for (const BlockPlan& block : experiment.plans.front().blocks) {
    if (block.replica > 1 && !block.exchange.served) break;
    const double bytes = by_block(experiment.costs.exchange_bytes, block.block);
    parts.push_back(
        {ExchangeTraffic(block),
         block.exchange.served ? bytes / block.exchange.members : bytes});
  }
  return [parts = std::move(parts)](std::int64_t turns) mutable {
    double sent = 0;
    for (Part& part : parts) sent += part.bytes * part.traffic.sent_in(turns);
    return sent;
  };
}

report::TurnWork work_of(const Experiment& experiment) {
  const RunPlan& plan = experiment.plans.front();
  const Costs costs = counting_costs(experiment);
  const std::int64_t turns = kTurnsOfReport * plan.blocks.front().accumulate;
  double operations = 0;
  double bytes = 0;
  for (const BlockPlan& block : plan.blocks) {
    if (block.replica > 1) break;  // all replicas do the same
    // Of one batch, where a replica has several of a turn's.
    const std::int64_t batches =
        block.micro_batches.in_turn() / block.micro_batches.count;
    const double part = 1 / static_cast<double>(batches);
    for (const Action& action :
         actions_of(block, {.end_turn = turns, .drain = true})) {
      operations += seconds_of(costs, block, action) *
                    block.micro_batches.share_of(action.batch) * part;
      for (const Transfer& sent : yields_of(plan, block.block, action))
        bytes += transit_of(costs, sent).occupies * part;
    }
  }
  const double samples = samples_per_turn(experiment);
  const auto all = static_cast<double>(turns);
  // An epoch's last batch may be smaller.
  const double of_full = samples / static_cast<double>(experiment.batch_size);
  const auto replicas = static_cast<double>(experiment.replicas.count);
  report::TurnWork work{.flops = operations / all * samples,
                        .boundary_bytes = bytes / all * of_full,
                        .replica_bytes = bytes_of_exchanges(experiment)};
  // In blocks that run free the clock decides which one waits.
  if (!runs_free(plan))
    work.sequential_flops =
        sequential_operations(experiment, costs) * of_full / replicas;
  return work;
}

/// Facts of a config. The work is unknown under a timetable, which changes it
/// at turns that aren't known beforehand, and where blocks or replicas that run
/// free leave some out.
report::ConfigFacts facts_of_config(const ConfigNode& config,
                                    const std::string& data_root) {
  report::ConfigFacts facts;
  try {
    const Experiment experiment = read_experiment(config, data_root);
    facts.sample = experiment.model.sample.shape;
    if (experiment.plans.size() == 1 &&
        !clock_decides_work(experiment.plans.front()))
      facts.work = work_of(experiment);
  } catch (const UserError&) {
    // The config is of another version of the program, or its data aren't here.
  }
  return facts;
}

std::optional<report::Target> target_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return report::target_from(text);
}

std::string name_of_file(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

void report_command(const ReportArguments& arguments) {
  const std::string root = data_root();
  const report::ReportFiles files =
      report::write_report({.folders = arguments.folders,
                            .page = arguments.page,
                            .only_numbers = arguments.untimed,
                            .target = target_of(arguments.target),
                            .facts = [&](const ConfigNode& config) {
                              return facts_of_config(config, root);
                            }});
  fmt::print("{}: the page; beside it {}, {}, {} and {}/\n", files.page,
             name_of_file(files.markdown), name_of_file(files.table),
             name_of_file(files.runs), name_of_file(files.figures));
}

}  // namespace sluice
