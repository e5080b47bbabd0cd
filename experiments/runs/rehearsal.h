#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/metrics/record.h"
#include "lib/schedules/costs.h"

namespace sluice {

/// The most that a block holds, by purpose, in bytes.
struct MemoryForecast {
  std::int64_t weights = 0;
  std::int64_t optimizer = 0;
  std::int64_t graph = 0;
  std::int64_t stash = 0;
  std::int64_t history = 0;
  std::int64_t queue = 0;  ///< messages that have come and wait
  /// The most that all of these take at once, gradients and temporaries too. 0
  /// without the caching allocator, which counts them.
  std::int64_t peak = 0;
  /// More when its channels are full, which a slow neighbour, link or machine
  /// may cause: messages that wait at either end.
  std::int64_t channels = 0;
};

/// As a record of kind "forecast", with the names that a record of kind "block"
/// has for what was measured, and channels_bytes.
Record to_record(const MemoryForecast& memory, int block);

/// What some turns of a block's seat took.
struct Rehearsal {
  BlockCosts seconds =
      {};  ///< medians; heads and replays are part of a backward
  MemoryForecast memory = {};
  /// The same while as many blocks compute as were asked for.
  std::optional<BlockCosts> beside = {};
};

struct RehearsalOptions {
  std::int64_t warm_up = 3;   ///< turns after the pipe has filled
  std::int64_t measured = 7;  ///< turns after those
  /// Above 1: afterwards, so many blocks at the same time, in threads.
  std::int64_t beside = 1;
};

/// Lets each block do the first turns of its schedule alone, one after the
/// other, between neighbours that are made up: activations are those of the
/// block below, gradients are zeros. So no more than one block is in memory at
/// a time, unless they are to compute side by side. Nothing is written. `queue`
/// follows from the schedule at these costs and at the experiment's links: a
/// faster neighbour fills the channel. Once per process prepare_process() comes
/// before it.
std::vector<Rehearsal> rehearse(const Experiment& experiment,
                                const RehearsalOptions& options = {});

}  // namespace sluice
