#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/engines/coordinator.h"
#include "lib/workers/seat.h"

namespace sluice {

/// A small experiment on the built-in data set: `lines` of TOML over defaults.
Experiment small_experiment(const std::string& lines);

/// What a block did in an update.
struct ShownUpdate {
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  Tensors gradients;
};
/// By block, in the order of the updates.
using Applications = std::map<int, std::vector<ShownUpdate>>;

/// The workers of an experiment in this thread, trained by train().
struct Training {
  explicit Training(const Experiment& of, std::shared_ptr<Sink> sink = nullptr);

  /// To the run's end, in the virtual engine; the virtual seconds it took.
  double train(const Costs& costs = {});
  /// Trains without watch; returns copies of the gradients with which weights
  /// were stepped.
  Applications train_and_record();
  /// All weights and statistics of a replica, in the order of the layers; heads
  /// after the block that they belong to.
  NamedTensors weights(int replica = 1) const;
  /// Seat of block k in replica 1.
  Seat& block(int k) { return *by_block(workers, k); }

  Experiment experiment;
  std::shared_ptr<Sink> sink;
  std::function<void(const TimedAction&)> watch;  ///< called after each action
  std::vector<std::unique_ptr<Seat>> workers;

 private:
  class Relay;
  double run(const Costs& costs,
             const std::function<void(const TimedAction&)>& seen);

  std::shared_ptr<Relay> relay_;
};

/// Empty when both have the same names with the same bits, in any order; else
/// what differs first.
std::string difference(const NamedTensors& left, const NamedTensors& right);

/// The largest absolute difference between tensors of the same names, which
/// `right` must all have.
double distance(const NamedTensors& left, const NamedTensors& right);

/// Empty when both blocks applied the same gradients for the same batches, bit
/// for bit, whatever the turn; else what differs first.
std::string difference(const std::vector<ShownUpdate>& left,
                       const std::vector<ShownUpdate>& right);
/// The largest absolute difference between them.
double distance(const std::vector<ShownUpdate>& left,
                const std::vector<ShownUpdate>& right);

NamedTensors copies_of(const NamedTensors& tensors);

}  // namespace sluice
