#include "experiments/planner/operations.h"

#include <utility>
#include <vector>

#include "experiments/planner/policy_work.h"
#include "lib/base/by_block.h"

namespace sluice::planner {
namespace {

double multiply_adds_of(const Experiment& experiment, const LayerRange& range) {
  double sum = 0;
  for (std::int64_t i = range.first; i <= range.last; ++i)
    sum += experiment.model.layers[static_cast<std::size_t>(i)].flops;
  return sum;
}

}  // namespace

Costs operations_of(const Experiment& experiment, std::int64_t samples) {
  constexpr double kPerMultiplyAdd = 2;
  const auto count = static_cast<double>(samples);
  Costs costs;
  for (const LayerRange& range : experiment.ranges) {
    const double forward =
        count * kPerMultiplyAdd * multiply_adds_of(experiment, range);
    costs.blocks.push_back(
        {.seconds = {{Op::forward, forward}, {Op::backward, 2 * forward}}});
  }
  for (int block = 1; block < experiment.blocks(); ++block) {
    const PolicyWork work = policy_work(experiment, block);
    by_block(costs.blocks, block).head = count * work.signal;
    by_block(costs.blocks, block).seconds[Op::learn] = count * work.learn;
    by_block(costs.blocks, block + 1).seconds[Op::learn_input] =
        count * work.learn_input;
  }
  return costs;
}

Costs computed_costs(const Experiment& experiment) {
  const std::int64_t samples =
      experiment.batch_size / experiment.micro_batches.count;
  std::vector<BlockCosts> blocks = operations_of(experiment, samples).blocks;
  Costs costs = experiment.costs;
  for (std::size_t k = 0; k < blocks.size(); ++k)
    if (k < costs.blocks.size()) blocks[k].slowness = costs.blocks[k].slowness;
  if (experiment.checkpoint_layers > 0)
    for (BlockCosts& block : blocks)
      block.seconds[Op::backward] += block.seconds[Op::forward];
  costs.blocks = std::move(blocks);
  return costs;
}

}  // namespace sluice::planner
