#include "experiments/planner/comparison.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/exchange_work.h"
#include "experiments/planner/operations.h"
#include "experiments/planner/other_load.h"
#include "experiments/planner/pipelines.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/base/quantile.h"
#include "lib/metrics/time_spent.h"
#include "lib/schedules/simulation/contention.h"

namespace sluice::planner {
namespace {

/// A row of the table, with the rounds that it is made of.
struct Candidate {
  Prediction row = {};
  std::optional<Experiment> experiment = {};
  std::vector<Speed> rounds = {};
  /// Pipelines, of which the fastest takes this place in the first round.
  std::vector<Candidate> tries = {};
};

/// A number of blocks, K, and of replicas, R.
struct Shape {
  std::int64_t blocks = 1;
  std::int64_t replicas = 1;
};

Candidate candidate(const ConfigNode& config, const PlannedMethod& method,
                    const Shape& shape, const Experiment& own,
                    const std::string& data_root) {
  Candidate made{.row = {.method = method.label,
                         .blocks = shape.blocks,
                         .replicas = shape.replicas}};
  try {
    ConfigNode mine =
        config_with_method(config, method, shape.blocks, own.ranges);
    if (shape.replicas != own.replicas.count)
      apply_override(mine, fmt::format("replicas.count={}", shape.replicas));
    made.experiment = read_experiment(mine, data_root);
    made.experiment->data = own.data;
    made.row.threads = made.experiment->threads;
  } catch (const UserError& error) {
    made.row.impossible = error.what();
  }
  return made;
}

bool messages_take_time(const Machine& machine, const Costs& costs) {
  return takes_time({.latency = costs.latency,
                     .bandwidth = costs.bandwidth,
                     .links = machine.links});
}

/// A candidate with the pipeline that suits the method; nothing where there is
/// none to try, or the method has its own.
std::optional<Candidate> pipelined(const ConfigNode& config,
                                   const PlannedMethod& method,
                                   const Candidate& plain,
                                   const Experiment& own,
                                   const std::string& data_root,
                                   const Machine& machine) {
  const bool is_chosen = method.pipeline.value.index() != 0;
  if (!plain.experiment || is_chosen) return std::nullopt;
  const Shape shape{plain.row.blocks, plain.row.replicas};
  Candidate made{.row = {.method = method.label,
                         .blocks = shape.blocks,
                         .replicas = shape.replicas}};
  for (const PlannedMethod& each :
       pipelines_of(method, *plain.experiment,
                    messages_take_time(machine, plain.experiment->costs)))
    made.tries.push_back(candidate(config, each, shape, own, data_root));
  std::erase_if(made.tries,
                [](const Candidate& each) { return !each.experiment; });
  if (made.tries.empty()) return std::nullopt;
  for (Candidate& each : made.tries) each.row.is_pipeline = true;
  return made;
}

/// Measured seconds of a turn in one block.
double seconds_of_one(const Experiment& one, const RehearsalOptions& options) {
  at::set_num_threads(static_cast<int>(one.threads));
  return seconds_in_one_block(
      {.blocks = {rehearse(one, options).front().seconds}}, one.plans.front());
}

Costs measured_costs(const Experiment& experiment,
                     const std::vector<Rehearsal>& rehearsals,
                     double in_one_block, const Machine& machine) {
  Costs costs = experiment.costs;
  costs.in_one_block = in_one_block;
  costs.blocks.clear();
  for (const Rehearsal& each : rehearsals) {
    costs.blocks.push_back(each.seconds);
    if (each.beside) costs.beside.push_back(*each.beside);
  }
  if (experiment.replicas.count > 1) add_exchanges(experiment, costs);
  return costs_on(machine, by_seat(std::move(costs), experiment.plans.front()),
                  experiment.threads);
}

/// The devices of the machine that can't hold their blocks.
std::vector<std::string> too_large_for(
    const Machine& machine, const std::vector<records::Memory>& memory) {
  std::vector<double> bytes(machine.devices.size());
  const auto device = devices_of_blocks(machine, memory.size());
  for (std::size_t k = 0; k < memory.size(); ++k)
    bytes[device[k]] += static_cast<double>(memory[k].peak_bytes.value_or(0));
  std::vector<std::string> texts;
  constexpr double kMiB = 1 << 20;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (machine.devices[i].memory > 0 && bytes[i] > machine.devices[i].memory)
      texts.push_back(fmt::format(
          "{} has {:.1f} MiB, its blocks take {:.1f}", machine.devices[i].name,
          machine.devices[i].memory / kMiB, bytes[i] / kMiB));
  return texts;
}

/// Puts the fastest of the tries in the candidate's place.
void choose(Candidate& candidate,
            const std::function<void(Candidate&)>& predict) {
  const auto speed_up = [](const Candidate& each) {
    return each.rounds.empty() ? 0 : each.rounds.front().speed_up;
  };
  std::vector<Candidate> tries = std::exchange(candidate.tries, {});
  for (Candidate& each : tries) predict(each);
  candidate = std::move(*std::max_element(
      tries.begin(), tries.end(), [&](const auto& left, const auto& right) {
        return speed_up(left) < speed_up(right);
      }));
}

/// Predicts from operations, on a machine of known `flops`; `one` are those of
/// a turn in one block.
void compute(Candidate& candidate, double one, const Machine& machine) {
  if (!candidate.tries.empty())
    return choose(candidate,
                  [&](Candidate& each) { compute(each, one, machine); });
  if (!candidate.experiment) return;
  const Experiment& experiment = *candidate.experiment;
  try {
    Costs costs = computed_costs(experiment);
    costs.in_one_block = one;
    costs =
        costs_on(machine, by_seat(std::move(costs), experiment.plans.front()),
                 experiment.threads);
    candidate.rounds.push_back(predicted_speed(experiment.plans.front(), costs,
                                               experiment.capacities));
  } catch (const UserError& error) {
    candidate.row.impossible = error.what();
  }
}

/// Begins with one block, which is measured anew before each of the others.
class Measurement {
 public:
  Measurement(std::vector<Candidate>& candidates, const Experiment& one,
              const ComparisonOptions& options)
      : candidates_(candidates), one_(one), options_(options) {}

  std::int64_t run() {
    const SteadyTime start = std::chrono::steady_clock::now();
    choose_turns();
    std::int64_t rounds = 0;
    for (; rounds < options_.most_rounds; ++rounds) {
      const double spent = seconds_since(start);
      const double each = rounds == 0 ? 0 : spent / static_cast<double>(rounds);
      if (rounds > 0 && spent + each > options_.seconds) break;
      for (Candidate& each_one : candidates_) {
        if (!each_one.tries.empty())
          choose(each_one, [this](Candidate& each) { measure(each, 0); });
        else if (each_one.experiment)
          measure(each_one, rounds);
      }
    }
    if (alone_.empty()) alone_.push_back(seconds_of_one(one_, rehearsal_));
    return rounds;
  }

  /// Seconds of a turn in one block, by measurement; at least one.
  const std::vector<double>& alone() const { return alone_; }

 private:
  /// Chooses the turns of a round: fewer where a batch takes long.
  void choose_turns() {
    seconds_of_one(one_, {.warm_up = 1, .measured = 1});
    const double turn = seconds_of_one(one_, {.warm_up = 0, .measured = 1});
    constexpr double kTurnsOfCell = 35;  // with those that warm up
    std::size_t cells = 0;
    for (const Candidate& each : candidates_)
      cells += std::max<std::size_t>(1, each.tries.size());
    const double round = turn * kTurnsOfCell * static_cast<double>(cells);
    if (round > options_.seconds)
      rehearsal_ = {.warm_up = 1, .measured = 2};
    else if (3 * round > options_.seconds)
      rehearsal_ = {.warm_up = 2, .measured = 4};
  }

  void measure(Candidate& candidate, std::int64_t round) {
    const Experiment& experiment = *candidate.experiment;
    if (options_.progress)
      options_.progress(fmt::format(
          "round {}: {}, {} blocks, {} replicas", round + 1,
          candidate.row.method, candidate.row.blocks, candidate.row.replicas));
    const double alone = seconds_of_one(one_, rehearsal_);
    alone_.push_back(alone);
    if (experiment.seats() == 1) return;
    at::set_num_threads(static_cast<int>(experiment.threads));
    RehearsalOptions beside = rehearsal_;
    beside.beside = std::min<std::int64_t>(
        experiment.seats(),
        blocks_at_once(this_machine().devices.front(), experiment.threads));
    try {
      const auto rehearsals = rehearse(experiment, beside);
      if (candidate.row.memory.empty())
        for (const Rehearsal& each : rehearsals)
          candidate.row.memory.push_back(each.memory);
      candidate.rounds.push_back(predicted_speed(
          experiment.plans.front(),
          measured_costs(experiment, rehearsals, alone, options_.machine),
          experiment.capacities));
    } catch (const UserError& error) {
      candidate.row.impossible = error.what();
      candidate.experiment.reset();
    }
  }

  std::vector<Candidate>& candidates_;
  const Experiment& one_;
  const ComparisonOptions& options_;
  RehearsalOptions rehearsal_;
  std::vector<double> alone_;
};

/// Fills a row with the median speed-up of its rounds and the quartiles.
void summarize(std::vector<Speed> rounds, Prediction& row) {
  std::sort(rounds.begin(), rounds.end(),
            [](const Speed& left, const Speed& right) {
              return left.speed_up < right.speed_up;
            });
  std::vector<double> speed_ups;
  speed_ups.reserve(rounds.size());
  for (const Speed& round : rounds) speed_ups.push_back(round.speed_up);
  row.speed = rounds[rounds.size() / 2];
  row.lower_quartile = quantile(speed_ups, 0.25);
  row.upper_quartile = quantile(speed_ups, 0.75);
}

ConfigNode one_replica(ConfigNode config) {
  if (config.find("replicas")) apply_override(config, "replicas.count=1");
  return config;
}

/// The config with threads for each block: one core on a described machine,
/// unless the config says more.
ConfigNode with_threads(const ConfigNode& config, bool is_described) {
  ConfigNode made = config;
  if (made.value.index() == 0) made.value = ConfigNode::Table{};
  if (is_described && made.find("threads") == nullptr)
    apply_override(made, "threads=1");
  return made;
}

Prediction finished(Candidate& candidate, double one, double turns_per_epoch,
                    const Machine& machine) {
  Prediction row = std::move(candidate.row);
  if (candidate.rounds.empty()) return row;
  summarize(std::move(candidate.rounds), row);
  // Seconds are scaled, so that rows compare as their speed-ups do.
  const auto replicas = static_cast<double>(row.replicas);
  row.speed.seconds_per_turn = replicas * one / row.speed.speed_up;
  row.seconds_per_epoch =
      row.speed.seconds_per_turn * turns_per_epoch / replicas;
  row.too_large = too_large_for(machine, row.memory);
  return row;
}

/// All shapes to compare, except one block in one replica, which is measured
/// beside each.
std::vector<Shape> shapes_of(const ComparisonOptions& options) {
  std::vector<Shape> shapes;
  for (const std::int64_t blocks : options.blocks)
    for (const std::int64_t replicas : options.replicas)
      if (blocks > 1 || replicas > 1) shapes.push_back({blocks, replicas});
  return shapes;
}

}  // namespace

Speed predicted_speed(const RunPlan& plan, const Costs& costs,
                      const std::vector<Capacity>& capacities) {
  return steady_speed(plan, settled(plan, costs, capacities), capacities);
}

Comparison compare_methods(const ConfigNode& given,
                           const std::string& data_root,
                           const ComparisonOptions& options) {
  const SteadyTime start = std::chrono::steady_clock::now();
  const ConfigNode config = with_threads(given, !options.machine.is_this);
  const Experiment own = read_experiment(given, data_root);
  Experiment one =
      read_experiment(one_replica(config_with_method(
                          config, {.label = "one block"}, 1, own.ranges)),
                      data_root);
  one.data = own.data;
  prepare_process(one);
  std::vector<Candidate> candidates;
  for (const PlannedMethod& method : options.methods)
    for (const Shape& shape : shapes_of(options)) {
      if (shape.blocks == 1 && &method != &options.methods.front()) continue;
      candidates.push_back(candidate(config, method, shape, own, data_root));
      if (auto pipeline = pipelined(config, method, candidates.back(), own,
                                    data_root, options.machine))
        candidates.push_back(std::move(*pipeline));
    }
  const OtherLoad load;
  Comparison comparison;
  Candidate alone{.row = {.method = "one block", .threads = one.threads}};
  double turn_of_one = 0;
  if (options.machine.computes()) {
    turn_of_one = seconds_in_one_block(computed_costs(one), one.plans.front());
    for (Candidate& each : candidates) {
      if (options.progress)
        options.progress(fmt::format("operations of {}, {} blocks, {} replicas",
                                     each.row.method, each.row.blocks,
                                     each.row.replicas));
      compute(each, turn_of_one, options.machine);
    }
  } else {
    Measurement measurement(candidates, one, options);
    comparison.rounds = measurement.run();
    turn_of_one = median(measurement.alone());
    comparison.others = load.cores();
    at::set_num_threads(static_cast<int>(one.threads));
    alone.row.memory = {rehearse(one).front().memory};
  }
  comparison.cores = static_cast<double>(this_machine().devices.front().cores);
  const auto turns_per_epoch = static_cast<double>(one.turns_per_epoch);
  const double seconds =
      costs_on(options.machine,
               {.blocks = {BlockCosts{}}, .in_one_block = turn_of_one},
               one.threads)
          .in_one_block;
  alone.rounds = {{.utilisation = {1}, .speed_up = 1}};
  comparison.one_block =
      finished(alone, seconds, turns_per_epoch, options.machine);
  for (Candidate& each : candidates)
    comparison.rows.push_back(
        finished(each, seconds, turns_per_epoch, options.machine));
  comparison.seconds = seconds_since(start);
  return comparison;
}

}  // namespace sluice::planner
