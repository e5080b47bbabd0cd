#include "tests/experiments/helpers/recorded.h"

#include <cstddef>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_replicas {
namespace {

class KeptBlocks final : public Sink {
 public:
  void write(const Record& record) override {
    if (auto block = record.as<records::Block>())
      blocks.push_back(std::move(*block));
  }
  std::vector<records::Block> blocks;
};

}  // namespace

Costs costs_with(int blocks, const std::vector<double>& slowness,
                 double jitter) {
  Costs costs{.jitter = jitter, .seed = 5};
  for (const double slow : slowness)
    for (int block = 1; block <= blocks; ++block)
      costs.blocks.push_back(
          {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

std::vector<std::int64_t> Recording::places(int seat) const {
  std::vector<std::int64_t> all;
  for (const Action& action : by_block(actions, seat))
    if (action.op == Op::settle && action.kind == ExchangeKind::push &&
        action.arrived > 0)
      all.push_back(action.arrived);
  return all;
}

std::vector<std::int64_t> Recording::staleness(int seat) const {
  std::vector<std::int64_t> all;
  std::int64_t clock = 0;
  for (const std::int64_t place : places(seat)) {
    all.push_back(place - 1 - clock);
    clock = place;
  }
  return all;
}

Recording recorded(const std::string& lines, const Costs& costs) {
  const auto sink = std::make_shared<KeptBlocks>();
  Training training(small_experiment(lines), sink);
  Recording run;
  run.actions.resize(training.workers.size());
  training.watch = [&](const TimedAction& timed) {
    by_block(run.actions, timed.seat).push_back(timed.action);
  };
  run.seconds = training.train(costs);
  run.weights = replica_runs::weights_of(training);
  run.blocks = sink->blocks;
  return run;
}

std::vector<NamedTensors> repeated(
    const std::string& lines, const std::vector<std::vector<Action>>& actions) {
  Training training(small_experiment(lines));
  const Experiment& experiment = training.experiment;
  Simulation simulation(experiment.plans, {}, experiment.capacities);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const int seat = static_cast<int>(i) + 1;
    simulation.extend(seat, actions[i]);
    training.block(seat).start({});
  }
  while (const auto timed = simulation.next())
    training.block(timed->seat).execute(timed->action);
  EXPECT_TRUE(simulation.finished()) << simulation.stuck();
  return replica_runs::weights_of(training);
}

}  // namespace sluice::free_replicas
