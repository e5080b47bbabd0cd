#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/planner/candidates.h"
#include "experiments/planner/machine.h"
#include "experiments/runs/measuring/rehearsal.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice::planner {

struct ComparisonOptions {
  std::vector<PlannedMethod> methods = {};
  std::vector<std::int64_t> blocks = {2, 4};
  std::vector<std::int64_t> replicas = {1};  ///< each with all of `blocks`
  Machine machine = this_machine();
  /// Rounds go on while there is time for another; there is always one.
  double seconds = 60;
  std::int64_t most_rounds = 9;
  /// Called with what is being measured; may be empty.
  std::function<void(const std::string&)> progress = {};
};

/// What a method in so many blocks is predicted to do.
struct Prediction {
  std::string method = {};
  std::int64_t blocks = 1;
  std::int64_t replicas = 1;
  std::int64_t threads = 1;  ///< of each block
  /// Seconds of a turn and so on; the speed-up, in samples per second, is over
  /// one block that back-propagates, measured beside it, with as many threads
  /// as that would have.
  Speed speed = {};
  /// Quartiles of the speed-ups of the rounds.
  double lower_quartile = 0;
  double upper_quartile = 0;
  double seconds_per_epoch = 0;
  std::vector<records::Memory> memory = {};  ///< index k-1
  std::vector<std::string> too_large = {};   ///< devices, and what they lack
  std::string impossible = {};  ///< why this model or config can't have it
  /// An exact pipeline: the fastest of those that were tried in the first
  /// round.
  bool is_pipeline = false;
};

struct Comparison {
  Prediction one_block = {};
  std::vector<Prediction> rows = {};  ///< method by method
  std::int64_t rounds = 0;  ///< 0: it was computed, and nothing measured
  double seconds = 0;       ///< that it took
  /// Cores that other programs kept busy meanwhile, and how many there are.
  double others = 0;
  double cores = 0;
};

/// What a schedule does where blocks share cores and slow each other down: the
/// simulator's word on costs.
Speed predicted_speed(const RunPlan& plan, const Costs& costs,
                      const std::vector<Capacity>& capacities);

/// Measures each method's blocks on this machine, alone and side by side, in
/// rounds, each time behind one block that does it all; medians over the rounds
/// are predictions for the machine of the options. Where exact gradients pass a
/// boundary the first round also tries pipelines (pipelines_of()), of which the
/// fastest gets a row. For a machine that computes() nothing is measured, and
/// no memory predicted. Writes nothing. Changes the number of intra-op threads
/// of this thread. Throws UserError for a config
/// that one block can't train.
Comparison compare_methods(const ConfigNode& config,
                           const std::string& data_root,
                           const ComparisonOptions& options);

}  // namespace sluice::planner
