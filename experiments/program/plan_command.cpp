// `sluice plan`: which block does what when, and how fast that is, before
// anything runs.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/config/experiment.h"
#include "experiments/planner/comparison.h"
#include "experiments/planner/comparison_text.h"
#include "experiments/planner/machine.h"
#include "experiments/planner/measured_cut.h"
#include "experiments/planner/operations.h"
#include "experiments/program/commands.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/measuring/calibration.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/metrics/simulated_trace.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/contention.h"
#include "lib/schedules/simulation/drawing.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice {
namespace {

/// Number of parameters of the model's layers in the range, without heads.
std::int64_t parameters_of(const Model& model, const LayerRange& range) {
  std::int64_t count = 0;
  for (std::int64_t i = range.first; i <= range.last; ++i)
    for (const at::Tensor& parameter :
         model.layers[static_cast<std::size_t>(i)].make()->parameters())
      count += parameter.numel();
  return count;
}

/// Multiply-adds of a sample's forward through each block's layers, without
/// heads.
std::vector<double> flops_of_blocks(const Experiment& experiment) {
  std::vector<double> blocks;
  for (const LayerRange& range : experiment.ranges) {
    double flops = 0;
    for (std::int64_t i = range.first; i <= range.last; ++i)
      flops += experiment.model.layers[static_cast<std::size_t>(i)].flops;
    blocks.push_back(flops);
  }
  return blocks;
}

/// "int8", or of two codecs "delta up, int8 down"; empty: none.
std::string text_of(const BoundaryCodecs& codecs) {
  const auto name = [](const std::shared_ptr<const Codec>& codec) {
    return codec ? codec->name() : std::string_view("none");
  };
  if (name(codecs.up) != name(codecs.down))
    return fmt::format("{} up, {} down", name(codecs.up), name(codecs.down));
  return codecs.up ? std::string(name(codecs.up)) : "";
}

void print_boundary(const Experiment& experiment, int block) {
  const std::string codec = text_of(codecs_above(experiment, block));
  const MessageBytes& bytes = by_block(experiment.costs.bytes, block);
  constexpr double kMiB = 1 << 20;
  fmt::print("   boundary {}: {}{}; a message up has {:.4g} MiB{}\n", block,
             by_block(experiment.phases.front(), block).name,
             codec.empty() ? "" : ", codec " + codec, bytes.activation / kMiB,
             bytes.gradient > 0
                 ? fmt::format(", one down {:.4g} MiB", bytes.gradient / kMiB)
                 : "");
}

void print_blocks(const Experiment& experiment) {
  const std::vector<double> work = flops_of_blocks(experiment);
  const double total = std::accumulate(work.begin(), work.end(), 0.);
  for (int block = experiment.blocks(); block >= 1; --block) {
    const LayerRange range = by_block(experiment.ranges, block);
    const double flops = by_block(work, block);
    std::string names;
    for (std::int64_t i = range.first; i <= range.last; ++i) {
      const LayerSpec& layer =
          experiment.model.layers[static_cast<std::size_t>(i)];
      names += (names.empty() ? "" : ", ") + layer.name;
    }
    fmt::print(
        "block {}  {:4.1f} % of the work ({:.4g} MFLOP forward)  {} parameters "
        " "
        "layers {}-{}: {}\n",
        block, total > 0 ? 100 * flops / total : 0, 2e-6 * flops,
        parameters_of(experiment.model, range), range.first, range.last, names);
    if (block > 1) print_boundary(experiment, block - 1);
  }
}

/// The actions of a file, or else those of the config's schedule.
std::vector<TimedAction> timeline_of(const PlanArguments& arguments,
                                     const Experiment& experiment,
                                     const Costs& costs) {
  const RunPlan& plan = experiment.plans.front();
  if (!arguments.actions_file.empty())
    return simulate(experiment.plans, costs, experiment.capacities,
                    read_schedule(arguments.actions_file, plan));
  Grant grant = sample_grant(plan, arguments.turns);
  grant.evaluation_batches = 0;
  grant.checkpoint = false;
  return simulate(plan, costs, experiment.capacities, grant);
}

std::vector<std::vector<Action>> actions_in(
    const std::vector<TimedAction>& timeline, int blocks) {
  std::vector<std::vector<Action>> actions(static_cast<std::size_t>(blocks));
  for (const TimedAction& timed : timeline)
    by_block(actions, timed.seat).push_back(timed.action);
  return actions;
}

/// The options of the command are those of the config's section.
ConfigArguments timed_config(const PlanArguments& arguments) {
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
  return config;
}

planner::Machine machine_of(const PlanArguments& arguments) {
  return arguments.machine.empty() ? planner::this_machine()
                                   : planner::read_machine(arguments.machine);
}

/// Rehearsals of the blocks, as many at the same time as this machine has cores
/// for.
std::vector<Rehearsal> rehearsed(const Experiment& experiment) {
  prepare_process(experiment);
  const std::int64_t at_once = planner::blocks_at_once(
      planner::this_machine().devices.front(), experiment.threads);
  return rehearse(experiment, {.beside = std::min<std::int64_t>(
                                   at_once, experiment.blocks())});
}

/// What was measured is shared out over cores; what was given is not, unless a
/// machine was described.
Costs on_machine(const planner::Machine& machine, const Experiment& experiment,
                 Costs costs) {
  if (!experiment.virtual_time.calibrate && machine.is_this) return costs;
  const RunPlan& plan = experiment.plans.front();
  costs.in_one_block = seconds_in_one_block(costs, plan);
  return settled(
      plan, planner::costs_on(machine, std::move(costs), experiment.threads),
      experiment.capacities);
}

/// Whether the seconds of the blocks' actions are given or measured.
bool knows_costs(const Experiment& experiment) {
  return experiment.virtual_time.calibrate ||
         takes_time({.blocks = experiment.costs.blocks});
}

/// A plan counts in seconds where these are given, measured or computed, and
/// else in units: the forward of the smallest block is 1.
enum class TimeUnit : std::uint8_t { seconds, units };

std::string_view name_of(TimeUnit unit) {
  return unit == TimeUnit::seconds ? "s" : "units";
}

/// Throws UserError where durations would be said twice.
TimeUnit time_unit(const planner::Machine& machine,
                   const Experiment& experiment, const std::string& file) {
  if (machine.computes() && knows_costs(experiment))
    throw UserError(
        "--machine {}: its devices have flops, from which durations follow; "
        "leave out --calibrate and the seconds of [virtual], or the flops",
        file);
  return machine.computes() || knows_costs(experiment) ? TimeUnit::seconds
                                                       : TimeUnit::units;
}

/// Costs that the command line gives; where they are unknown, an action takes
/// as long as its share of the work: the forward of the smallest block is 1.
Costs costs_to_plan_with(const planner::Machine& machine,
                         const Experiment& experiment,
                         const std::vector<Rehearsal>& rehearsals) {
  if (machine.computes()) return planner::computed_costs(experiment);
  if (experiment.virtual_time.calibrate) {
    Costs costs = calibrated(experiment, rehearsals);
    for (const Rehearsal& each : rehearsals)
      if (each.beside) costs.beside.push_back(*each.beside);
    return costs;
  }
  Costs costs = experiment.costs;
  if (knows_costs(experiment)) return costs;
  const std::vector<double> work = flops_of_blocks(experiment);
  double least = 0;
  for (const double flops : work)
    if (flops > 0 && (least == 0 || flops < least)) least = flops;
  for (std::size_t k = 0; k < costs.blocks.size(); ++k) {
    const double forward = least > 0 ? work[k] / least : 1;
    costs.blocks[k].seconds = {{Op::forward, forward},
                               {Op::backward, 2 * forward}};
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
    for (const Op op : {Op::forward, Op::backward, Op::backward_input,
                        Op::backward_weights}) {
      const double seconds = block.seconds[op];
      if (seconds == 0) continue;
      shortest = std::min(shortest, seconds * block.slowness);
      longest = std::max(longest, seconds * block.slowness);
    }
  const double unit = longest <= kEven * shortest ? shortest : end / kColumns;
  return unit > 0 ? unit : 1;
}

bool has_halves(const std::vector<TimedAction>& timeline) {
  return std::any_of(timeline.begin(), timeline.end(), [](const auto& timed) {
    return timed.action.op == Op::backward_input;
  });
}

void print_timeline(const std::vector<TimedAction>& timeline,
                    const Experiment& experiment, const Costs& costs,
                    TimeUnit time) {
  double end = 0;
  for (const TimedAction& timed : timeline) end = std::max(end, timed.end);
  const double unit = unit_of(costs, end);
  fmt::print(
      "\n{}\nF forward, B backward, U update of a batch, L what a synthesizer "
      "learns from it,\n{}{}I what an input model does; - busy, . waiting; a "
      "column is {:.4g} {}, a message takes {:g} s. It ends after {:.4g} {}.\n",
      draw_timeline(timeline, experiment.seat_names(), unit),
      has_halves(timeline)
          ? "D and W a backward in halves: what goes down, and the weights,\n"
          : "",
      experiment.replicas.count > 1
          ? "X what is handed over to replicas, S the sum that comes of it,\n"
          : "",
      unit, name_of(time), costs.latency, end, name_of(time));
}

std::string remark_of(const BlockCosts& block) {
  std::string remark;
  if (block.slowness != 1) remark += fmt::format("  x {:g}", block.slowness);
  if (block.seconds[Op::backward_input] > 0)
    remark += fmt::format("  in halves {:.4g} + {:.4g}",
                          op_seconds(block, Op::backward_input),
                          op_seconds(block, Op::backward_weights));
  return remark;
}

void print_costs(const Costs& costs, TimeUnit time) {
  fmt::print("\n{:>5}  {:>9}  {:>10}  {:>9}  {:>9}  {:>9}  ({})\n", "block",
             "forward", "backward", "update", "learn", "head", name_of(time));
  for (std::size_t k = 0; k < costs.blocks.size(); ++k) {
    const BlockCosts& block = costs.blocks[k];
    fmt::print("{:>5}  {:>9.4g}  {:>10.4g}  {:>9.4g}  {:>9.4g}  {:>9.4g}{}\n",
               k + 1, block.seconds[Op::forward],
               op_seconds(block, Op::backward), block.seconds[Op::update],
               block.seconds[Op::learn], block.head, remark_of(block));
  }
}

void print_speed(const Experiment& experiment, const Costs& costs,
                 TimeUnit time) {
  const Speed speed =
      steady_speed(experiment.plans.front(), costs, experiment.capacities);
  const auto samples =
      static_cast<double>(experiment.batch_size * experiment.replicas.count);
  const std::string_view unit = name_of(time);
  fmt::print(
      "\nSteady state: {:.4g} {} a turn, {}{:.2f} x one block that does all "
      "the work ({:.4g} {})\n",
      speed.seconds_per_turn, unit,
      time == TimeUnit::seconds
          ? fmt::format("{:.4g} samples/s, ", samples / speed.seconds_per_turn)
          : "",
      speed.speed_up, seconds_in_one_block(costs, experiment.plans.front()),
      unit);
  const SeatNames names = experiment.seat_names();
  for (const SharedCores& shared : costs.shared)
    if (std::ssize(shared.blocks) > shared.cores)
      fmt::print("{} workers, {} to {}, share a device: {} at a time\n",
                 shared.blocks.size(), names.short_of(shared.blocks.front()),
                 names.short_of(shared.blocks.back()), shared.cores);
  for (std::size_t k = speed.utilisation.size(); k >= 1; --k)
    fmt::print("{}  computes {:5.1f} % of the time\n",
               names.short_of(static_cast<int>(k)),
               100 * speed.utilisation[k - 1]);
  fmt::print("bubble   {:5.1f} % of the blocks' time\n",
             100 * bubble_of(speed));
}

/// Prints the memory of blocks in processes of their own; blocks in threads
/// share messages.
void print_memory(const std::vector<Rehearsal>& rehearsals) {
  if (rehearsals.empty()) return;
  const bool has_centres = rehearsals.front().memory.centre_bytes.has_value();
  fmt::print(
      "\nMiB at most, of a block in a process of its own{}\n"
      "block   weights  optimizer     graph     stash   history     queue  {}  "
      "  "
      "peak  and with full channels\n",
      has_centres ? ", of replica 1, which has the centre" : "",
      has_centres ? "  centre  " : "");
  constexpr double kMiB = 1 << 20;
  for (std::size_t k = rehearsals.size(); k >= 1; --k) {
    const records::Memory& memory = rehearsals[k - 1].memory;
    const auto mib = [](records::Bytes bytes) {
      return static_cast<double>(bytes.value_or(0)) / kMiB;
    };
    fmt::print(
        "{:>5}  {:>8.2f}  {:>9.2f}  {:>8.2f}  {:>8.2f}  {:>8.2f}  {:>8.2f}  "
        "{}{:>8.2f}  {:>8.2f}\n",
        k, mib(memory.weights_bytes), mib(memory.optimizer_bytes),
        mib(memory.graph_bytes), mib(memory.stash_bytes),
        mib(memory.history_bytes), mib(memory.queue_bytes),
        has_centres ? fmt::format("{:>8.2f}  ", mib(memory.centre_bytes)) : "",
        mib(memory.peak_bytes),
        mib(memory.peak_bytes) + mib(memory.channels_bytes));
  }
}

void write_trace(const std::string& path, const Plans& plans,
                 const std::vector<TimedAction>& timeline) {
  std::ofstream file(path);
  if (!file) throw UserError("--trace {}: can't be written", path);
  SimulatedTrace trace(file, plans);
  for (const TimedAction& timed : timeline) trace.write(timed);
}

/// Prints on one line that is written anew, where stderr is a terminal.
void show_progress(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 0) return;
  say("\r\x1b[K{}", text);
  std::fflush(stderr);
}

/// Throws UserError where options of a timeline stand beside such a one.
void refuse_timeline(const PlanArguments& arguments, std::string_view beside) {
  if (!arguments.actions_file.empty() || arguments.list ||
      !arguments.trace.empty())
    throw UserError("{} goes with none of --actions, --list and --trace",
                    beside);
}

/// Whether durations are said, or of another machine.
bool says_durations(const PlanArguments& arguments) {
  const auto is_said = [](const auto& option) {
    return !option.second.empty();
  };
  return arguments.calibrate || !arguments.machine.empty() ||
         !arguments.slow.empty() ||
         std::any_of(arguments.lists.begin(), arguments.lists.end(), is_said) ||
         std::any_of(arguments.numbers.begin(), arguments.numbers.end(),
                     is_said);
}

void cut(const PlanArguments& arguments) {
  refuse_timeline(arguments, "--cut");
  if (says_durations(arguments))
    throw UserError(
        "--cut measures what layers take on this machine: leave out --machine, "
        "--calibrate, --slow and the durations");
  if (arguments.compare)
    throw UserError("--cut and --compare measure different things: give one");
  const ConfigNode config = config_of(timed_config(arguments));
  const planner::MeasuredCut measured =
      planner::measure_cut(config, data_root(), show_progress);
  show_progress("");
  fmt::print("{}", planner::text_of(measured));
}

void compare(const PlanArguments& arguments) {
  refuse_timeline(arguments, "--compare");
  ConfigArguments with_options = timed_config(arguments);
  const ConfigNode config = config_of(with_options);
  const Experiment experiment = read_to_start(config);
  if (experiment.replicas.are_uneven())
    throw UserError(
        "--compare measures numbers of blocks, each in as many replicas, and "
        "replicas.count = {} is a list: set one number",
        experiment.replicas.count_text());
  planner::ComparisonOptions options{.blocks = arguments.blocks,
                                     .replicas = arguments.replicas,
                                     .machine = machine_of(arguments),
                                     .seconds = arguments.seconds,
                                     .progress = show_progress};
  for (const std::string& text : arguments.methods)
    options.methods.push_back(planner::planned_method(text, experiment));
  if (options.methods.empty())
    options.methods = planner::common_methods(config, experiment);
  const planner::Comparison comparison =
      planner::compare_methods(config, data_root(), options);
  show_progress("");
  fmt::print("{}", planner::text_of(comparison));
}

}  // namespace

void plan_command(const PlanArguments& arguments) {
  if (arguments.cut) return cut(arguments);
  if (arguments.compare) return compare(arguments);
  const Experiment experiment =
      read_to_start(config_of(timed_config(arguments)));
  const planner::Machine machine = machine_of(arguments);
  const TimeUnit time = time_unit(machine, experiment, arguments.machine);
  // The list of actions of a run in lockstep doesn't depend on costs.
  const bool needs_costs =
      !arguments.list || runs_free(experiment.plans.front());
  std::vector<Rehearsal> rehearsals;
  if (needs_costs && experiment.virtual_time.calibrate) {
    rehearsals = rehearsed(experiment);
  }
  const Costs costs =
      needs_costs
          ? on_machine(machine, experiment,
                       costs_to_plan_with(machine, experiment, rehearsals))
          : Costs{};
  const auto timeline = timeline_of(arguments, experiment, costs);
  if (arguments.list) {
    fmt::print("{}", list_actions(actions_in(timeline, experiment.seats())));
    return;
  }
  print_blocks(experiment);
  print_timeline(timeline, experiment, costs, time);
  if (time == TimeUnit::units)
    fmt::print(
        "1 unit is the forward of the smallest block; the others follow by "
        "their work, a backward takes twice as long, heads and updates "
        "nothing. --calibrate measures seconds.\n");
  print_costs(costs, time);
  if (arguments.actions_file.empty()) print_speed(experiment, costs, time);
  print_memory(rehearsals);
  if (!arguments.trace.empty())
    write_trace(arguments.trace, experiment.plans, timeline);
}

}  // namespace sluice
