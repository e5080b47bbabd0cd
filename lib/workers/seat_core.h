#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/blocks/block.h"
#include "lib/metrics/memory_use.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/weights/weight_view.h"
#include "lib/workers/evaluations.h"
#include "lib/workers/in_flight.h"
#include "lib/workers/lateness.h"
#include "lib/workers/model_norm.h"
#include "lib/workers/ports.h"
#include "lib/workers/replica_sync.h"
#include "lib/workers/seat_clock.h"
#include "lib/workers/seat_log.h"
#include "lib/workers/seat_messages.h"
#include "lib/workers/seat_parts.h"
#include "lib/workers/seat_plan.h"
#include "lib/workers/seat_timeline.h"
#include "lib/workers/trained/evaluated_weights.h"
#include "lib/workers/trained/trained_tensors.h"
#include "lib/workers/trained/window.h"
#include "lib/workers/watched_turn.h"

namespace sluice {

/// All that a seat owns, for the sources that do its ops (lib/workers/ops/).
/// Used by the seat's thread.
struct SeatCore {
  SeatCore(int seat, SeatSettings all_settings, SeatParts parts);
  SeatCore(const SeatCore&) = delete;
  SeatCore& operator=(const SeatCore&) = delete;

  SeatSettings settings;
  SeatPlan place;
  Block block;
  TrainedTensors trained;
  ReplicaSync replicas;
  EvaluatedWeights evaluated;
  Evaluations evaluations;
  SeatClock clock;
  SeatTimeline timeline;
  Ports ports;
  SeatLog log;
  Window window = {};
  SeatProgress progress = {};
  ModelNorm norm;
  SeatMessages messages;
  Lateness late;
  WatchedTurn watched;
  std::unique_ptr<WeightView> view = nullptr;  ///< of the phase
  Ledger ledger = {};
  BatchesInFlight held = {};
  Tensors lesson = {};  ///< gradients of one, to be published
  MemoryUse memory_use = {};

  const RunPlan& run_plan() const { return place.run(); }
  const BlockPlan& plan() const { return place.plan(); }
  const c10::Device& device() const { return block.device(); }
  const PhaseEnds& ends() const {
    return trained.ends(static_cast<std::size_t>(place.phase()));
  }
  /// Begins a phase, with `turn` as its first.
  void enter(std::int64_t phase, std::int64_t turn);

  Pass pass_for(std::int64_t batch, bool training) const;
  /// Whether it clips its gradients before the other replicas see them.
  bool clips_own() const;
  double rate_of(const UpdateChain& update, std::int64_t turn) const;
  /// The batch's share of its turn's samples.
  double share_of(const Action& action) const;
  /// Factor of the batch's gradients in the mean over the replicas.
  double weight_of(const Action& action) const;
  UpdateInfo info_of(const Action& action) const;
  /// Whether to log the update: its turn is due, or it is the first after one.
  bool is_logged(const Action& action) const;
  /// Notes the memory in flight when it is most: after a forward.
  void note_memory();
  /// Puts the weights to be evaluated or saved in place, where they are an
  /// average.
  void show_average();
};

/// Does an action of a seat: takes its messages, computes, and sends.
using SeatOp = void (*)(SeatCore& seat, const Action& action);

/// What a seat with that plan does for the op: a row of ops/ops.cpp.
SeatOp op_of(const BlockPlan& plan, Op op);

}  // namespace sluice
