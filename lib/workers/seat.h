#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/memory/account.h"
#include "lib/base/messages/channel.h"
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
#include "lib/schedules/plan/epochs.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/plan/plan.h"
#include "lib/weights/weight_view.h"
#include "lib/workers/coded_boundary.h"
#include "lib/workers/in_flight.h"
#include "lib/workers/payloads.h"
#include "lib/workers/ports.h"
#include "lib/workers/replica_sync.h"
#include "lib/workers/seat_clock.h"
#include "lib/workers/seat_log.h"
#include "lib/workers/seat_options.h"
#include "lib/workers/seat_timeline.h"
#include "lib/workers/sent_payloads.h"
#include "lib/workers/trained/evaluated_weights.h"
#include "lib/workers/trained/moving_average.h"
#include "lib/workers/trained/trained_tensors.h"
#include "lib/workers/watched_turn.h"
#include "lib/workers/window.h"

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

/// Executes the actions of one replica of a block, on its device; the
/// parameters of the ends of its boundaries are moved there. The only owner of
/// weights, optimizer and autograd graphs. For one thread.
class Seat {
 public:
  /// seat: its number in the plans.
  Seat(int seat, SeatSettings settings, SeatParts parts);

  /// Waits for the action's inputs, computes, and sends. Throws LinkError when
  /// a neighbour is gone, UserError and InternalError as their texts say; where
  /// the memory of its GPU runs out, UserError.
  void execute(const Action& action);

  int block() const { return block_.index(); }
  /// Device that the seat computes on.
  const c10::Device& device() const { return block_.device(); }
  int replica() const { return plan().replica; }
  /// Number of the seat among all seats of the run.
  int number() const { return number_; }
  /// Channels to the seat's neighbours.
  Ports& ports() { return ports_; }
  SeatClock& clock() { return clock_; }
  /// Bytes of a centre, as ReplicaSync::bytes_of_centre().
  std::int64_t bytes_of_centre(int members) const {
    return replicas_.bytes_of_centre(members);
  }
  /// Weights of the block and its ends, and the tensors of ends that start as
  /// copies of weights (TrainedTensors).
  NamedTensors weights() const { return trained_.weights(); }
  NamedTensors copied() const { return trained_.copied(); }
  /// State of a checkpoint beside the weights: of the optimizer, counters
  /// ("workers.<k>.*"), and batches and messages in flight
  /// ("flights.<k>.<batch>.*", "sent.<k>.<batch>.*").
  NamedTensors state() const;
  /// Loads tensors that weights() and state() returned at one turn, by name;
  /// further tensors are ignored. `source` is named in errors. To be called
  /// before start().
  void restore(const NamedTensors& weights, const NamedTensors& state,
               std::string_view source);
  /// Called after restore() where another replica of the block was lost, and
  /// begins with the weights of the block's centre, if that lies here.
  void rejoin(int replica) { replicas_.rejoin(replica); }
  /// Lets a replica join the run, between two grants, where the block's centre
  /// lies here: CentreHost::admit().
  void admit(int replica, std::int64_t life, Link link) {
    replicas_.admit(replica, life, std::move(link));
  }
  /// To be called before the first action: sends again the messages that were
  /// in flight in the checkpoint of a continued run. `first` is the run's first
  /// grant.
  void start(const Grant& first);
  /// The sum of the gradients of the window's batches so far; right after an
  /// update, that sum as the update's transforms handed it to the optimizer. In
  /// the order of the parameters; undefined for a parameter without a gradient.
  /// For tests and probes.
  const Tensors& gradients() const { return window_.gradients; }
  std::int64_t weight_version() const { return version_; }
  /// The weights that are evaluated: of replica 1 those that all agreed on
  /// last.
  NamedTensors evaluated_weights() const {
    return evaluated_.in_place_of(weights());
  }
  /// Place of the last action among all that the replicas' centre has served
  /// (Action::arrived); 0: it isn't one that is served.
  std::int64_t served_as() const { return served_as_; }
  /// The latest turn that replicas had made when this one, whose gradient may
  /// have come too late, took what they made; -1: none, or they drop nothing.
  std::int64_t merged_turn() const { return merged_turn_; }
  /// Whether a dealer has the batches of the seat's forwards, which the next
  /// one then is; nothing: all of the grant are dealt.
  bool is_dealt_to() const {
    return plan().micro_batches.by_arrival && block() == 1;
  }
  std::optional<std::int64_t> deal(const Grant& grant) {
    const MicroBatches& cut = plan().micro_batches;
    return replicas_.deal(cut.first_of(grant.first_turn),
                          cut.first_of(grant.end_turn));
  }
  /// Counts turns that are left out because other replicas have merged without
  /// this one.
  void left_out(std::size_t turns) {
    left_out_ += static_cast<std::int64_t>(turns);
  }
  /// Number of batches between forward and backward, and number of autograd
  /// graphs: of these batches, and of batches between the halves of a backward.
  std::size_t flights() const { return held_.flights.size(); }
  std::size_t graphs() const { return held_.graphs(); }
  /// The actions done so far, which determine those that may come next.
  const Ledger& ledger() const { return ledger_; }
  /// Whether the ports are ready, as Ports::are_ready().
  bool is_ready(Action& action) { return ports_.are_ready(run_plan(), action); }
  /// Arrival of the action's messages, as Ports::arrival_of().
  SteadyTime arrival_of(const Action& action) const {
    return ports_.arrival_of(run_plan(), action);
  }

  /// To be called after the last action: writes a record of the block's times
  /// and memory, and closes the links. Messages already sent still arrive.
  void finish();

 private:
  void forward(const Action& action);
  void backward(const Action& action);
  void visit(const Action& action);
  void sweep(const Action& action);
  void backward_input(const Action& action);
  void backward_weights(const Action& action);
  void update(const Action& action);
  void learn(const Action& action);
  void learn_input(const Action& action);
  void exchange(const Action& action);
  void settle(const Action& action);
  ExchangeContext context_of(const Action& action);
  void take(const Action& settle, ExchangeResult taken);
  void show_exchanged(const Action& settle);
  void note_visit(const Action& settle, const CentreVisit& visit);
  void take_combined(const Tensors& combined);
  void enter_run(const SeatEntry& entry);
  void take_shared();
  UpdateInfo info_of(const Action& action) const;
  void evaluate(const Action& action);
  void checkpoint(const Action& action);
  void take_weights(const Action& action);
  void show_average();
  void perform(const Action& action);
  void measure(const Action& action);

  /// Begins a phase, with `turn` as its first.
  void enter(std::int64_t phase, std::int64_t turn);
  const BlockPlan& plan() const;
  const RunPlan& run_plan() const;
  const PhaseEnds& ends() const { return trained_.ends(phase()); }
  std::size_t phase() const { return static_cast<std::size_t>(phase_); }
  bool is_last() const;
  Pass pass_for(std::int64_t batch, bool training) const;
  Share share() const;
  bool clips_own() const;
  AverageRule average_rule() const;
  double rate_of(const UpdateChain& update, std::int64_t turn) const;
  double share_of(const Action& action) const;
  /// Factor of the batch's gradients in the mean over the replicas.
  double weight_of(const Action& action) const;

  Payload read(Source& source, std::int64_t batch) const;
  Payload input(const Action& action);
  Payload evaluation_input(const Action& action);
  InputContext input_context(const Action& action);
  Attachments kept_of(const Payload& fed) const;
  Flight flight_of(const Action& action, const Payload& fed) const;
  Message message_of(MessageKind kind, const Action& action) const;
  void send_up(Message message, const Tensors& outputs, const Payload& fed);
  DownPayload receive_from_above(const Action& action, std::int64_t round = 0);
  bool brings_losses() const;
  at::Tensor losses_of(const PendingBackward& asked) const;
  void tell_source(const Action& action, PendingBackward& asked);
  DownPayload down_of(std::vector<Tensors> gradients,
                      const Tensors& inputs) const;
  void send_down(const Action& action, const DownPayload& down);
  void send_down_again(std::int64_t batch, const DownPayload& down);
  void send_down(const Action& action, const DownPayload& down,
                 const Coding& coding);
  DownPayload to_send_again(const DownPayload& down,
                            const Message& message) const;
  std::int64_t slot_of(const Action& action) const;
  std::int64_t under_way_below() const;

  PendingBackward ask_above(const Action& action);
  PendingBackward ask_own(const Action& action);
  void forward_again(const Action& action, PendingBackward& asked);
  void ask_again(const Action& action, PendingBackward& asked);
  void send_up_again(const Action& action, const PendingBackward& asked);
  PendingBackward opened(const Action& action, Tensors returned = {});
  void apply(const Action& action, const PendingBackward& asked,
             const Tensors& parameters);
  at::Tensor squared_norms() const;
  at::Tensor told_norm(const Action& action, const UpdateInfo& info) const;
  at::Tensor exchange_norm(const Action& action);
  void take_norm(const Message& from_above);
  void pass_norm_down(const Action& settle);
  void clip_own(const Action& exchange);
  void take_lesson(Learners& learners, Tensors gradients, const Action& action);
  Learners& learners_of(const Action& exchange);
  void step(Learners& learners, Tensors gradients, const Action& action);
  void check_staleness(const Action& action) const;
  void tell_late(const Action& action, std::int64_t in_updates,
                 std::int64_t in_steps, std::int64_t batches = 1);

  /// Whether to log the update: its turn is due, or it is the first after one.
  bool is_logged(const Action& action) const;
  void log_lesson(const Action& action, const Lesson& lesson);
  void tell_status(const Action& action);
  void hash(const Action& action);
  std::string name() const;
  void note_memory();
  records::Block costs() const;
  std::string name_in_state(std::string_view what) const;
  void start_free(const Grant& first);
  std::vector<std::int64_t> awaited_below(const SavedState& saved) const;
  std::vector<std::int64_t> sent_in(const SavedState& saved) const;
  void restore_counts(const SavedState& saved);
  void restore_known_late(const SavedState& saved);

  int number_;
  SeatSettings settings_;
  std::int64_t phase_ = 0;
  Block block_;
  CodedBoundary coded_below_;
  CodedBoundary coded_above_;
  Sources sources_;
  std::shared_ptr<MemoryAccount> memory_;
  TrainedTensors trained_;
  ReplicaSync replicas_;
  EvaluatedWeights evaluated_;
  std::optional<MovingAverage> average_;  // of the replica that evaluates
  SeatClock clock_;
  SeatTimeline timeline_;
  Ports ports_;
  SeatLog log_;
  WatchedTurn watched_;

  std::unique_ptr<WeightView> view_;  // of the phase
  Ledger ledger_;
  BatchesInFlight held_;
  SentPayloads sent_down_;
  Window window_;
  /// Updates of the weights; where a centre is given gradients, those that it
  /// had made when the block took its weights.
  std::int64_t version_ = 0;
  std::int64_t first_batch_ = 0;  // Grant's
  std::int64_t last_turn_ = -1;   // that went backward
  double last_rate_ = 0;          // of an update
  Tensors lesson_;                // gradients of one, to be published
  std::int64_t served_as_ = 0;    // of the last action
  std::int64_t merged_turn_ = -1;
  std::int64_t late_ = 0;                 // gradients that were dropped
  std::int64_t left_out_ = 0;             // turns
  std::int64_t absent_ = 0;               // from what others made
  std::vector<std::int64_t> known_late_;  // of the window's batches: in_updates

  MemoryUse memory_use_;
  SteadyTime told_ = std::chrono::steady_clock::now();  // the status
  Evaluation evaluation_;
  Evaluation validation_;  ///< of its own batches, which come first
  Evaluation training_;    ///< of the training part, whose batches come next
};

}  // namespace sluice
