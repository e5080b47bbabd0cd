#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/config/keep_options.h"
#include "experiments/config/timetable.h"
#include "experiments/data/data_set.h"
#include "lib/base/config.h"
#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/engines/coordinator.h"
#include "lib/schedules/simulation.h"
#include "lib/tensors/precision.h"
#include "lib/updates/optimizer.h"
#include "lib/workers/seat_timeline.h"
#include "modules/partition.h"

namespace sluice {

/// One experiment as its config says, with everything resolved that does not
/// need weights. Workers are made from it, in this process or in another that
/// reads the same resolved config.
struct Experiment {
  std::string name;
  std::string engine;  ///< virtual | threads | processes
  std::uint64_t seed = 0;
  Masks masks = Masks::philox;
  std::int64_t batch_size = 0;
  std::int64_t threads = 1;  ///< intra-op threads of each block
  bool drop_last = false;
  std::int64_t prefetch = 2;  ///< batches that are made ahead
  std::int64_t turns_per_epoch = 0;
  /// How each turn is cut into batches.
  MicroBatches micro_batches = {};
  RunLength length;
  std::int64_t validation_batches = 0;  ///< first of length.evaluation_batches
  KeepOptions keep;
  std::string initial_weights;  ///< a file or checkpoint; empty: none
  std::int64_t log_every = 1;
  std::int64_t timeout_seconds = 600;
  double reconnect_seconds = 0;    ///< 0: not at all
  std::string transport = "unix";  ///< a row of transports()
  bool hashes = false;             ///< workers write them
  bool restart_on_failure = false;
  std::int64_t restarts = 3;  ///< in a row, without progress
  bool stop_on_nan = true;    ///< a run ends when a loss is NaN or infinite
  bool forecast = false;      ///< predict the blocks' memory first
  bool accumulate_mean = false;
  bool equal_builds = false;  ///< ranks of another LibTorch are refused
  std::int64_t max_staleness = kUnbounded;  ///< batches
  std::int64_t probe_every = 0;             ///< turns; 0: no probe
  Precision precision = Precision::fp32;
  MemoryFormat memory_format = MemoryFormat::channels_last;
  std::vector<std::string> devices;  ///< names, index k-1
  bool deterministic = true;         ///< on GPUs
  bool cuda_ipc = true;              ///< where it can be had
  bool caching_allocator = true;

  std::shared_ptr<const DataSet> data;  ///< nullptr: batches are fed in
  Model model;
  Partition ranges;
  Loss loss;
  std::vector<PolicyRow> policies;           ///< that a boundary may name
  std::vector<Boundaries> phases;            ///< of the timetable
  Codecs codecs;                             ///< for the whole run
  std::vector<OptimizerOptions> optimizers;  ///< index k-1
  Plans plans;                               ///< by phase
  std::vector<Capacity> capacities;          ///< index k-1
  Costs costs;                               ///< of the virtual engine's clock
  bool calibrate = false;     ///< measure the blocks' costs first
  bool tells_status = false;  ///< workers do, for `sluice watch`
  TracedTurns traced;         ///< of trace.json

  /// The config with every default written out and explicit block ranges:
  /// reading it again gives the same experiment.
  ConfigNode resolved;
  std::vector<KeyDoc> manual;

  int blocks() const { return static_cast<int>(ranges.size()); }
};

/// Reads the config and opens its data. `data_root` is where data files are
/// looked for when the config has no data.root. Writes nothing. Throws
/// UserError for everything that is wrong with the config.
Experiment read_experiment(const ConfigNode& config,
                           const std::string& data_root);

/// On average: the last batch of an epoch may be smaller.
double samples_per_turn(const Experiment& experiment);

/// A network of a user who also writes the training loop.
struct OwnNetwork {
  Model model;
  std::vector<PolicyRow> policies = {};  ///< beside the built-in ones
};

/// The same for a network of one's own: the config has neither data nor model,
/// and no key that is about the loop. Beside the others it may have `turns` and
/// `turns_per_epoch`, which schedules of the learning rate are made from.
Experiment read_network(const ConfigNode& config, const OwnNetwork& network);

/// That of the boundary above block k; nullptr: none, or there is no boundary.
std::shared_ptr<const Codec> codec_above(const Experiment& experiment,
                                         int block);

/// Whether any block computes on a GPU.
bool uses_gpus(const Experiment& experiment);
/// Whether block k does; false when there is none of that number.
bool is_on_gpu(const Experiment& experiment, int block);

/// The boundary above block k.
BoundarySite site_of(const Experiment& experiment, int block);

}  // namespace sluice
