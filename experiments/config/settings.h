#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/virtual_time.h"
#include "lib/base/config.h"
#include "lib/metrics/early_stop.h"
#include "lib/schedules/rows.h"
#include "lib/workers/seat_timeline.h"

namespace sluice {

/// What a run saves; the end always is.
struct CheckpointSettings {
  double every = 0;              ///< epochs
  std::int64_t every_turns = 0;  ///< above 0 it replaces `every`
  bool initial = false;
  std::int64_t keep = 0;
  std::string best = "none";

  void describe(Fields& fields);
};

/// The plain keys of an experiment's config, as they are written: everything
/// but data, model, loss, boundaries and optimizers.
struct Settings {
  std::string name = "run";
  std::string engine = "virtual";
  std::string transport = "unix";
  std::int64_t seed = 1;
  std::int64_t masks = 2;
  ConfigNode blocks = {.value = std::int64_t{2}};
  ConfigNode device = {.value = std::string("cpu")};
  bool deterministic = true;
  bool cuda_ipc = true;
  double epochs = 5;
  std::int64_t turns = 0;
  std::int64_t batch_size = 64;
  bool drop_last = false;
  double evaluate_every = 1;
  std::int64_t log_every = 1;
  bool drain = true;
  std::int64_t threads = 0;
  std::int64_t accumulate = 1;
  std::string accumulate_rule = "sum";
  std::string order = "turns";
  std::int64_t micro_batches = 1;
  std::int64_t executors = 0;
  bool flush = true;
  bool recompute = false;
  std::string window_weights = "latest";
  std::int64_t max_staleness = -1;
  std::int64_t probe_every = 0;
  std::string precision = "fp32";
  std::string memory_format = "channels_last";
  std::string allocator = "caching";
  std::int64_t slack = 2;
  std::string barrier = "none";
  std::string schedule = "lockstep";
  std::int64_t in_flight = 0;
  bool hashes = false;
  std::int64_t timeout_seconds = 600;
  double reconnect_seconds = 0;
  std::string on_failure = "stop";
  std::int64_t restarts = 3;
  bool equal_builds = false;
  std::string on_nan = "stop";
  bool forecast = false;
  std::string initial_weights = {};
  CheckpointSettings checkpoint = {};
  TracedTurns traced = {.first = 0, .count = 100};
  EarlyStopOptions early_stop = {};
  VirtualOptions virtual_time = {};

  void describe(Fields& fields);
  const ScheduleRow& schedule_row() const;
};

}  // namespace sluice
