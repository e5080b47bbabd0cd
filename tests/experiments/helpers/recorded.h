#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/metrics/records.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/tensors/tensors.h"

/// Runs of replicas with clocks of their own, in virtual time.
namespace sluice::free_replicas {

/// Seconds of a replica's actions, times how slow each is.
Costs costs_with(int blocks, const std::vector<double>& slowness,
                 double jitter = 0);

struct Recording {
  std::vector<std::vector<Action>> actions;  // by seat
  std::vector<NamedTensors> weights;         // by replica
  std::vector<records::Block> blocks;        // by seat, at the end
  double seconds = 0;                        // of virtual time

  /// Places of the seat's pushes, in their order.
  std::vector<std::int64_t> places(int seat) const;
  /// How many pushes of others the centre served between two of the seat's,
  /// and before the first.
  std::vector<std::int64_t> staleness(int seat) const;
};

Recording recorded(const std::string& lines, const Costs& costs);

/// The weights when the actions of a record are done again.
std::vector<NamedTensors> repeated(
    const std::string& lines, const std::vector<std::vector<Action>>& actions);

}  // namespace sluice::free_replicas
