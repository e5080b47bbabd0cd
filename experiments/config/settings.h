#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/keep_options.h"
#include "experiments/config/virtual_time.h"
#include "experiments/data/limits.h"
#include "lib/base/by_block.h"
#include "lib/base/config.h"
#include "lib/engines/coordinator.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/deals.h"
#include "lib/schedules/plan.h"
#include "lib/schedules/rows.h"
#include "lib/tensors/gpu_arithmetic.h"
#include "lib/workers/seat_options.h"

namespace sluice {

enum class Engine : std::uint8_t { virtual_time, threads, processes };
/// Its name in configs: "virtual".
std::string name_of(Engine engine);

/// What a run saves; the end always is.
struct CheckpointSettings {
  double every = 0;              ///< epochs
  std::int64_t every_turns = 0;  ///< above 0 it replaces `every`
  KeepOptions keep = {};

  void describe(Fields& fields);
};

/// Turns that are cut into batches.
struct PipelineSettings {
  std::string order = "turns";  ///< a row of schedule_rows()
  std::int64_t micro_batches = 1;
  bool flush = true;
  /// Those that the windows see; other than by_window: the latest.
  WeightsAtBackward weights = {};
  bool recompute = false;
  std::int64_t executors = 0;  ///< 0: one for each block

  void describe(Fields& fields);
};

/// What sums over replicas in processes.
enum class GroupKind : std::uint8_t { links, mpi, nccl };

/// Copies of every block.
struct ReplicaSettings {
  std::int64_t count = 1;  ///< of every block, or of that which has the most
  /// Where blocks have different numbers: of each, index k-1. Empty: `count`.
  std::vector<std::int64_t> counts = {};
  std::int64_t since_turn = 0;  ///< Deals, of a run continued with this count
  std::int64_t since_deal = 0;
  std::string policy = "all_reduce";   ///< a row of replica_policies()
  std::string compress = "none";       ///< a row of compressors()
  GroupKind group = GroupKind::links;  ///< between processes
  ReplicaKind kind = {};

  void describe(Fields& fields);
  void describe_count(Fields& fields);
  void describe_compressor(Fields& fields);
  bool are_uneven() const { return !counts.empty(); }
  std::int64_t of_block(int block) const {
    return counts.empty() ? count : by_block(counts, block);
  }
  /// As the key `count` says it: "2", or "[2, 1]".
  std::string count_text() const;
  Deals deals() const { return {count, since_turn, since_deal}; }
  bool uses_mpi() const { return group == GroupKind::mpi; }
  bool uses_nccl() const { return group == GroupKind::nccl; }
};

/// For `transport`: each link's own, as the run finds the hosts of its ends.
inline constexpr std::string_view kAutoTransport = "auto";

/// The plain keys of an experiment's config: everything but data, model, loss,
/// boundaries and optimizers. A key is a member here, or in a struct that is
/// handed on whole, and a line of describe().
struct Settings : SeatOptions {
  std::string name = "run";
  Engine engine = Engine::virtual_time;
  /// A row of transports(), or kAutoTransport.
  std::string transport = "unix";
  ConfigNode cut = {.value = std::int64_t{2}};  ///< the key `blocks`
  ConfigNode device = {.value = std::string("cpu")};
  GpuArithmetic gpu = {};  ///< its keys lie beside the others
  bool cuda_ipc = true;    ///< where it can be had
  double epochs = 5;
  std::int64_t turns = 0;  ///< above 0 it replaces `epochs`
  DataLimits limit = {};
  std::int64_t batch_size = 64;
  bool drop_last = false;
  double evaluate_every = 1;  ///< epochs
  std::int64_t threads = 0;   ///< intra-op, of each block; 0: to be derived
  std::int64_t accumulate = 1;
  std::vector<std::int64_t> accumulate_by_block = {};  ///< empty: `accumulate`
  PipelineSettings pipeline = {};
  ReplicaSettings replicas = {};
  std::int64_t probe_every = 0;  ///< turns; 0: no probe
  bool probe_layers = false;     ///< each layer of a block too
  bool caching_allocator = true;
  std::int64_t slack = 2;
  bool barrier_each_iteration = false;
  bool free_schedule = false;
  std::int64_t in_flight = 0;
  Priority priority = Priority::backward;
  std::int64_t timeout_seconds = 600;
  double reconnect_seconds = 0;  ///< 0: not at all
  bool restart_on_failure = false;
  std::int64_t restarts = 3;  ///< in a row, without progress
  bool equal_builds = false;  ///< ranks of another LibTorch are refused
  bool stop_on_nan = true;    ///< a run ends when a loss is NaN or infinite
  bool forecast = false;      ///< predict the blocks' memory first
  std::vector<std::string> loggers = {};  ///< trackers that are told of the run
  std::string initial_weights = {};       ///< a file or checkpoint; empty: none
  CheckpointSettings checkpoint = {};
  /// `drain` and `early_stop` are keys; the rest follows from keys and data.
  RunLength length = {};
  VirtualOptions virtual_time = {};

  void describe(Fields& fields);
  const ScheduleRow& schedule_row() const;
};

}  // namespace sluice
