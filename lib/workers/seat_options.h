#pragma once

#include <cstdint>

#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "lib/schedules/plan/traits.h"
#include "lib/tensors/precision.h"
#include "lib/workers/seat_timeline.h"

namespace sluice {

/// The keys of a config that reach all seats as they were read.
struct SeatOptions {
  std::uint64_t seed = 1;
  Masks masks = Masks::philox;
  std::int64_t log_every = 1;  ///< turns between training records
  Precision precision = Precision::fp32;
  MemoryFormat memory_format = MemoryFormat::channels_last;
  /// Gradients of an update's window are averaged, not summed.
  bool accumulate_mean = false;
  /// An update whose gradient is older fails the run, in batches.
  std::int64_t max_staleness = kUnbounded;
  TracedTurns traced = {.first = 0, .count = 100};
  /// Write a hash of every gradient and tensor after each update.
  bool hashes = false;
  /// Training records have the norm of the gradients, before they are clipped.
  bool gradient_norms = false;
  /// A block on a GPU replays graphs of its operations (GraphedForward).
  bool graphs = false;
  /// Blocks keep the inputs of every so many layers alone (run_checkpointed());
  /// 0: all that their backwards need.
  std::int64_t checkpoint_layers = 0;
};

}  // namespace sluice
