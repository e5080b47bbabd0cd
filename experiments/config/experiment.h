#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/settings.h"
#include "experiments/config/timetable.h"
#include "experiments/data/change/assistant.h"
#include "experiments/data/samples/data_set.h"
#include "lib/base/config.h"
#include "lib/blocks/layer.h"
#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/simulation.h"
#include "lib/updates/optimizer.h"
#include "modules/partition.h"

namespace sluice {

/// The name in [model] of the layers of a program of one's own.
inline constexpr std::string_view kOwnModel = "own";

/// One experiment: the keys of its config, and what follows from them once it
/// is resolved, without what needs weights. `threads`, `length` and
/// checkpoint.keep.every are derived in their places. Workers are made from it,
/// in this process or in another that reads the same resolved config.
struct Experiment : Settings {
  std::int64_t prefetch = 2;  ///< batches that are made ahead
  AssistOptions assist = {};  ///< `lag` as it is written
  /// What the assistant learned from before each draw, in a replay.
  std::shared_ptr<const RecordedLessons> recorded_lessons = nullptr;
  std::int64_t turns_per_epoch = 0;  ///< of a replica, rounded down
  std::int64_t deals_per_epoch = 0;  ///< turns of all replicas together
  /// How each turn is cut into batches.
  MicroBatches micro_batches = {};
  std::int64_t validation_batches = 0;  ///< first of length.evaluation_batches
  std::int64_t training_batches = 0;    ///< behind these: of the training part
  std::vector<std::string> devices;     ///< names, index k-1

  std::shared_ptr<const DataSet> data;  ///< nullptr: batches are fed in
  Model model;
  Partition ranges;
  RunLoss loss;
  std::vector<PolicyRow> policies;  ///< that a boundary may name
  std::vector<Boundaries> phases;   ///< of the timetable
  std::vector<std::int64_t> accumulate_by_phase;
  Codecs codecs;                             ///< for the whole run
  std::vector<OptimizerOptions> optimizers;  ///< index k-1
  Plans plans;                               ///< by phase
  std::vector<Capacity> capacities;          ///< of links_of(): index n-1
  Costs costs;                               ///< of the virtual engine's clock
  bool tells_status = false;                 ///< workers do, for `sluice watch`

  /// The config with every default written out and explicit block ranges:
  /// reading it again gives the same experiment.
  ConfigNode resolved;
  std::vector<KeyDoc> manual;
  /// What the config says and the experiment does without, a line each: options
  /// of a choice that a later layer changed, tables of blocks that a later cut
  /// has not.
  std::vector<std::string> left_out;

  int blocks() const { return static_cast<int>(ranges.size()); }
  /// Number of seats of all replicas, as the plans number them.
  int seats() const { return seat_names().seats(); }
  /// Seats of the replicas that the run starts with, the first ones.
  int started_seats() const {
    return replicas.starts_with_all()
               ? seats()
               : blocks() * static_cast<int>(replicas.start_with);
  }
  SeatNames seat_names() const {
    return {blocks(), static_cast<int>(replicas.count), replicas.counts};
  }
};

/// A network of a user who also writes the training loop.
struct OwnNetwork {
  Model model;
  std::vector<PolicyRow> policies = {};  ///< beside the built-in ones
  std::vector<ReplicaPolicyRow> replica_policies = {};  ///< likewise
  bool writes_run = false;  ///< the loop has a run folder
};

/// Mean number of samples in a turn: the last batch of an epoch may be smaller.
/// Without data it is batch_size.
double samples_per_turn(const Experiment& experiment);

/// Codecs of the boundary above block k; none where no boundary is there.
BoundaryCodecs codecs_above(const Experiment& experiment, int block);
/// What they have to know of that boundary; nothing where none is there.
CodecSite codec_site(const Experiment& experiment, int block);

/// Whether any block computes on a GPU.
bool uses_gpus(const Experiment& experiment);
/// Whether block k does; false when there is none of that number.
bool is_on_gpu(const Experiment& experiment, int block);

/// The boundary above block k.
BoundarySite site_of(const Experiment& experiment, int block);

}  // namespace sluice
