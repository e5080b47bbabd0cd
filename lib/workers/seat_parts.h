#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/memory/account.h"
#include "lib/base/messages/channel.h"
#include "lib/blocks/block.h"
#include "lib/blocks/loss.h"
#include "lib/blocks/source.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/observer.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/epochs.h"
#include "lib/schedules/plan/plan.h"
#include "lib/workers/payloads.h"
#include "lib/workers/replica_sync.h"
#include "lib/workers/seat_options.h"

namespace sluice {

/// Settings of the run that a seat needs.
struct SeatSettings {
  SeatOptions options = {};
  Plans plans = {};
  std::int64_t turns = 0;
  Epochs epochs = {};
  std::int64_t evaluation_batches = 0;
  std::int64_t validation_batches = 0;  ///< the first of those
  std::int64_t training_batches = 0;    ///< of the training part: the next
  Loss loss = {};  ///< of the run: what an evaluation reports
  std::string checkpoint_folder = {};  ///< empty: nothing is saved
  OptimizerOptions optimizer = {};
  ReplicaKind replicas = {};  ///< how they work together
  /// Whether the source gets the loss of each sample: the backward of block 1
  /// brings it, down all boundaries.
  bool tells_losses = false;
  /// Whether to write a record of kind "status" once a second.
  bool status = false;
  /// Time that a block which runs free sleeps before it waits for a certain
  /// neighbour.
  Deadline patience = std::chrono::minutes(10);
  /// Number of updates of a block on a GPU that may follow before its losses
  /// and accuracies are read.
  std::int64_t late_updates = 8;
};

/// Sources of batches: for block 1, and for a block above an unlock, which
/// trains on the data directly.
struct Sources {
  std::shared_ptr<Source> training = nullptr;
  std::shared_ptr<Source> evaluation = nullptr;
};

/// Parts of a seat; `above` and `below` where there is a neighbour.
struct SeatParts {
  Block block;
  /// Lower ends of the boundary above the block, by phase; phases may share
  /// one.
  std::vector<std::shared_ptr<Lower>> lowers = {};
  /// Upper ends of the boundary below, by phase. Empty: plain ones.
  std::vector<std::shared_ptr<Upper>> uppers = {};
  Link below = {};
  Link above = {};
  /// Codecs of the boundaries below and above (payloads.h), and what they have
  /// to know of them.
  BoundaryCodecs codecs_below = {};
  BoundaryCodecs codecs_above = {};
  CodecSite site_below = {};
  CodecSite site_above = {};
  Sources sources = {};
  std::shared_ptr<Sink> sink = nullptr;
  /// Account to which the actions' allocations are charged.
  std::shared_ptr<MemoryAccount> memory = nullptr;
  std::shared_ptr<Observer> observer = nullptr;
  /// The replicas of the block; empty: it has one.
  ReplicaSync::Endpoints replicas = {};
};

}  // namespace sluice
