#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/metrics/sink.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/tensors/tensors.h"
#include "tests/experiments/helpers/training.h"

/// Runs of replicas in the virtual engine, and what they end with.
namespace sluice::replica_runs {

/// Copies of the weights and statistics of each replica, of all seats that it
/// has.
std::vector<NamedTensors> weights_of(const Training& training);

/// Weights of all replicas after the run of small_experiment(lines).
std::vector<NamedTensors> trained(const std::string& lines,
                                  const Costs& costs = {},
                                  std::shared_ptr<Sink> sink = nullptr);

/// Without the statistics of BatchNorm.
NamedTensors parameters_of(NamedTensors all);

}  // namespace sluice::replica_runs
