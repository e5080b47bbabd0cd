#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/fine_tuning.h"
#include "experiments/config/keep_options.h"
#include "experiments/config/pipeline_settings.h"
#include "experiments/config/replica_settings.h"
#include "experiments/config/virtual_time.h"
#include "experiments/data/order/limits.h"
#include "lib/base/config.h"
#include "lib/engines/coordinator.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/added_delay.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/gpu/gpu_arithmetic.h"
#include "lib/workers/seat_options.h"

namespace sluice {

enum class Engine : std::uint8_t { virtual_time, threads, processes };
/// Name of the engine in configs: "virtual".
std::string name_of(Engine engine);

/// The moments at which a run saves a checkpoint; it always saves at its end.
struct CheckpointSettings {
  double every = 0;              ///< epochs
  std::int64_t every_turns = 0;  ///< above 0 it replaces `every`
  KeepOptions keep = {};

  void describe(Fields& fields);
};

/// The value of `transport` by which each link gets its own, as the run finds
/// the hosts of its ends.
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
  bool mps = false;        ///< a daemon of the run's own
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
  AddedDelay delay = {};
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
  std::vector<std::string> loggers = {};  ///< trackers that log the run
  std::string initial_weights = {};       ///< a file or checkpoint; empty: none
  FineTuning fine_tuning = {};
  CheckpointSettings checkpoint = {};
  /// `drain` and `early_stop` are keys; the rest follows from keys and data.
  RunLength length = {};
  VirtualOptions virtual_time = {};

  void describe(Fields& fields);
  const ScheduleRow& schedule_row() const;
};

}  // namespace sluice
