#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/channel.h"
#include "lib/base/memory/account.h"
#include "lib/blocks/block.h"
#include "lib/blocks/evaluation.h"
#include "lib/blocks/loss.h"
#include "lib/blocks/source.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/observer.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/metrics/memory_use.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/ledger.h"
#include "lib/schedules/plan.h"
#include "lib/weights/weight_view.h"
#include "lib/workers/in_flight.h"
#include "lib/workers/payloads.h"
#include "lib/workers/ports.h"
#include "lib/workers/seat_clock.h"
#include "lib/workers/seat_log.h"
#include "lib/workers/seat_options.h"
#include "lib/workers/seat_timeline.h"
#include "lib/workers/sent_down.h"
#include "lib/workers/trained.h"
#include "lib/workers/watched_turn.h"
#include "lib/workers/window.h"

namespace sluice {

/// What a seat is told of the run.
struct SeatSettings {
  SeatOptions options = {};
  Plans plans = {};
  std::int64_t turns = 0;
  std::int64_t turns_per_epoch = 1;
  std::int64_t evaluation_batches = 0;
  std::int64_t validation_batches = 0;  ///< of those, the first ones
  Loss loss = {};  ///< of the run: what an evaluation reports
  std::string checkpoint_folder = {};  ///< empty: nothing is saved
  OptimizerOptions optimizer = {};
  /// Tell once a second how it goes, by a record of the kind "status".
  bool status = false;
  /// How long a block that runs free sleeps before it waits for a certain
  /// neighbour.
  Deadline patience = std::chrono::minutes(10);
};

/// Where block 1 takes its batches, and a block above an unlock those that it
/// trains on.
struct Sources {
  std::shared_ptr<Source> training = nullptr;
  std::shared_ptr<Source> evaluation = nullptr;
};

/// What a seat is made of; `above` and `below` where there is a neighbour.
struct SeatParts {
  Block block;
  /// Lower ends of the boundary above the block, by phase; phases may share
  /// one.
  std::vector<std::shared_ptr<Lower>> lowers = {};
  /// Upper ends of the boundary below, by phase. Empty: plain ones.
  std::vector<std::shared_ptr<Upper>> uppers = {};
  Link below = {};
  Link above = {};
  /// Codecs of the boundaries below and above (payloads.h).
  std::shared_ptr<const Codec> codec_below = nullptr;
  std::shared_ptr<const Codec> codec_above = nullptr;
  Sources sources = {};
  std::shared_ptr<Sink> sink = nullptr;
  /// Charged with what the actions allocate.
  std::shared_ptr<MemoryAccount> memory = nullptr;
  std::shared_ptr<Observer> observer = nullptr;
};

/// Executes the actions of one block, on its device: what the ends of
/// its boundaries hold is brought there. The only thing that owns weights,
/// optimizer and autograd graphs; one thread uses it.
class Seat {
 public:
  Seat(SeatSettings settings, SeatParts parts);

  /// Waits for what the action needs, computes, sends. Throws LinkError when a
  /// neighbour is gone, UserError and InternalError as their texts say.
  void execute(const Action& action);

  int block() const { return block_.index(); }
  /// The channels to its neighbours.
  Ports& ports() { return ports_; }
  SeatClock& clock() { return clock_; }
  /// Trained's.
  NamedTensors weights() const { return trained_.weights(); }
  NamedTensors copied() const { return trained_.copied(); }
  /// What a checkpoint holds beside the weights: the optimizer's state,
  /// counters ("workers.<k>.*"), and what is in flight
  /// ("flights.<k>.<batch>.*", "sent.<k>.<batch>.*").
  NamedTensors state() const;
  /// Takes what weights() and state() gave at the same turn, by name; more may
  /// be there. `source` is named in errors. Before start().
  void restore(const NamedTensors& weights, const NamedTensors& state,
               std::string_view source);
  /// Before the first action: sends again what was under way to a neighbour
  /// when the run that is continued was saved. `first` is the run's first
  /// grant.
  void start(const Grant& first);
  /// The sum of the gradients of the window's batches so far; right after an
  /// update what the chain's links left of it for the optimizer. In the order
  /// of the parameters; undefined where one got none. For tests and probes.
  const Tensors& gradients() const { return window_.gradients; }
  std::int64_t weight_version() const { return version_; }
  /// Batches between their forward and their backward, and how many batches
  /// have a graph: of those, and between the halves of their backward.
  std::size_t flights() const { return held_.flights.size(); }
  std::size_t graphs() const { return held_.graphs(); }
  /// What it has done, and so what it may do next.
  const Ledger& ledger() const { return ledger_; }
  /// Ports::are_ready().
  bool is_ready(Action& action) { return ports_.are_ready(run_plan(), action); }

  /// After the last action: writes a record of what the block has cost, and
  /// closes the links; what was sent arrives.
  void finish();

 private:
  void forward(const Action& action);
  void backward(const Action& action);
  void backward_input(const Action& action);
  void backward_weights(const Action& action);
  void update(const Action& action);
  void learn(const Action& action);
  void learn_input(const Action& action);
  void evaluate(const Action& action);
  void checkpoint(const Action& action);
  void perform(const Action& action);

  /// `turn`: with which the phase begins.
  void enter(std::int64_t phase, std::int64_t turn);
  const BlockPlan& plan() const;
  const RunPlan& run_plan() const;
  const PhaseEnds& ends() const { return trained_.ends(phase()); }
  std::size_t phase() const { return static_cast<std::size_t>(phase_); }
  bool is_last() const;
  const c10::Device& device() const { return block_.device(); }
  Pass pass_for(std::int64_t batch, bool training) const;
  double rate_of(const UpdateChain& update, std::int64_t turn) const;
  double share_of(const Action& action) const;

  Payload read(Source& source, std::int64_t batch) const;
  Payload input(const Action& action);
  Payload evaluation_input(const Action& action);
  InputContext input_context(const Action& action);
  Attachments kept_of(const Payload& fed) const;
  Flight flight_of(const Action& action, const Payload& fed) const;
  Message message_of(MessageKind kind, const Action& action) const;
  void send_up(const Action& action, MessageKind kind, const Tensors& outputs,
               const Payload& fed);
  Down receive_from_above(const Action& action);
  Down down_of(std::vector<Tensors> gradients) const;
  void send_down(const Action& action, const Down& down);
  std::int64_t under_way_below() const;

  Asked ask_above(const Action& action);
  void apply(const Action& action, const Asked& asked,
             const Tensors& parameters);
  double exchange_norm(const Action& action);
  void step(Learners& learners, Tensors gradients, const Action& action);
  void check_staleness(const Action& action) const;

  /// A due turn, or the first update after one.
  bool is_logged(const Action& action) const;
  void log_lesson(const Action& action, const Lesson& lesson);
  void tell_status(const Action& action);
  void hash(const Action& action);
  void note_memory();
  records::Block costs() const;
  std::string name_in_state(std::string_view what) const;
  void start_free(const Grant& first);
  std::vector<std::int64_t> awaited_below(const SavedState& saved) const;
  std::vector<std::int64_t> sent_in(const SavedState& saved) const;
  void restore_counts(const SavedState& saved);

  SeatSettings settings_;
  std::int64_t phase_ = 0;
  Block block_;
  std::shared_ptr<const Codec> codec_below_;
  std::shared_ptr<const Codec> codec_above_;
  Sources sources_;
  std::shared_ptr<MemoryAccount> memory_;
  Trained trained_;
  SeatClock clock_;
  SeatTimeline timeline_;
  Ports ports_;
  SeatLog log_;
  WatchedTurn watched_;

  std::unique_ptr<WeightView> view_;  // of the phase
  Ledger ledger_;
  BatchesInFlight held_;
  SentDown sent_down_;
  Window window_;
  std::int64_t version_ = 0;
  std::int64_t first_batch_ = 0;  // Grant's
  std::int64_t last_turn_ = -1;   // that went backward

  MemoryUse memory_use_;
  SteadyTime told_ = std::chrono::steady_clock::now();  // the status
  Evaluation evaluation_;
  Evaluation validation_;  ///< of its own batches, which come first
};

}  // namespace sluice
