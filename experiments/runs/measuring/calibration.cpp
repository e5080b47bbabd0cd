#include "experiments/runs/measuring/calibration.h"

namespace sluice {
namespace {

Experiment in_one_block(const Experiment& experiment) {
  Experiment whole = experiment;
  whole.ranges = {
      {experiment.ranges.front().first, experiment.ranges.back().last}};
  whole.phases = {Boundaries{}};
  whole.optimizers.resize(1);
  whole.plans = {make_run_plan({}, false,
                               experiment.plans.front().blocks[0].accumulate,
                               experiment.micro_batches)};
  whole.capacities.clear();
  return whole;
}

}  // namespace

Costs calibrated(const Experiment& experiment,
                 const std::vector<Rehearsal>& rehearsals) {
  Costs costs = experiment.costs;
  for (std::size_t k = 0; k < rehearsals.size(); ++k) {
    const double slowness = costs.blocks.at(k).slowness;
    costs.blocks[k] = rehearsals[k].seconds;
    costs.blocks[k].slowness = slowness;
  }
  const Experiment whole = in_one_block(experiment);
  costs.in_one_block = seconds_in_one_block(
      {.blocks = {rehearse(whole).front().seconds}}, whole.plans.front());
  return costs;
}

}  // namespace sluice
