#include "experiments/calibration.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "experiments/assembly.h"
#include "lib/engines/virtual.h"
#include "lib/metrics/time_spent.h"

namespace sluice {
namespace {

constexpr std::int64_t kWarmUp = 3;  // turns after the pipe has filled
constexpr std::int64_t kMeasured = 7;

/// Seconds of each action, by block and kind.
using Timings = std::map<std::pair<int, ActionKind>, std::vector<double>>;

double median(const Timings& timings, int block, ActionKind kind) {
  const auto found = timings.find({block, kind});
  if (found == timings.end()) return 0;
  std::vector<double> seconds = found->second;
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[middle]
                                 : (seconds[middle - 1] + seconds[middle]) / 2;
}

std::int64_t warm_turn(const RunPlan& plan) {
  std::int64_t longest = 0;
  for (const BlockPlan& block : plan.blocks)
    longest = std::max({longest, turns_in_flight(block), block.accumulate - 1});
  return longest + kWarmUp;
}

/// In the virtual engine no action waits for another while it runs, so what
/// passes between two of them is the latter's.
Timings measure(const Experiment& experiment) {
  const std::int64_t warm = warm_turn(experiment.plans.front());
  const std::int64_t accumulate =
      experiment.plans.front().blocks.front().accumulate;
  Coordinator coordinator(
      {.turns = warm + std::max(kMeasured, accumulate), .drain = false},
      experiment.blocks(), nullptr, nullptr);
  std::vector<Ends> ends = memory_ends(experiment);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int block = 1; block <= experiment.blocks(); ++block)
    workers.push_back(make_worker(
        experiment, block, std::move(ends[static_cast<std::size_t>(block) - 1]),
        nullptr, {}));
  Timings timings;
  SteadyTime before = std::chrono::steady_clock::now();
  run_virtual(workers, experiment.plans, experiment.capacities, {}, coordinator,
              [&](const TimedAction& timed) {
                const double seconds = seconds_since(before);
                if (timed.action.turn >= warm)
                  timings[{timed.block, timed.action.kind}].push_back(seconds);
                before = std::chrono::steady_clock::now();
              });
  return timings;
}

BlockCosts costs_in(const Timings& timings, int block) {
  return {.forward = median(timings, block, ActionKind::forward),
          .backward = median(timings, block, ActionKind::backward),
          .update = median(timings, block, ActionKind::update),
          .learn = median(timings, block, ActionKind::learn),
          .replay = 0};
}

Experiment in_one_block(const Experiment& experiment) {
  Experiment whole = experiment;
  whole.ranges = {
      {experiment.ranges.front().first, experiment.ranges.back().last}};
  whole.phases = {Boundaries{}};
  whole.optimizers.resize(1);
  whole.plans = {
      make_run_plan({}, false, experiment.plans.front().blocks[0].accumulate)};
  whole.capacities.clear();
  return whole;
}

}  // namespace

Costs calibrated(const Experiment& experiment) {
  Experiment sample = experiment;
  sample.initial_weights.clear();
  Costs costs = experiment.costs;
  const Timings timings = measure(sample);
  for (int block = 1; block <= experiment.blocks(); ++block) {
    BlockCosts& mine = costs.blocks.at(static_cast<std::size_t>(block) - 1);
    const double slowness = mine.slowness;
    mine = costs_in(timings, block);
    mine.slowness = slowness;
  }
  const Experiment whole = in_one_block(sample);
  const BlockCosts all = costs_in(measure(whole), 1);
  costs.in_one_block =
      seconds_in_one_block({.blocks = {all}}, whole.plans.front());
  return costs;
}

}  // namespace sluice
