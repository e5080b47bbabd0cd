#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/bell.h"
#include "lib/base/channel.h"
#include "lib/base/lossy_sender.h"
#include "lib/base/memory/account.h"
#include "lib/blocks/block.h"
#include "lib/blocks/evaluation.h"
#include "lib/blocks/loss.h"
#include "lib/blocks/source.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/witness.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/metrics/gpu_clock.h"
#include "lib/metrics/memory_use.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"
#include "lib/schedules/ledger.h"
#include "lib/schedules/plan.h"
#include "lib/schedules/replay_buffer.h"
#include "lib/tensors/precision.h"
#include "lib/updates/update_chain.h"
#include "lib/weights/history.h"
#include "lib/workers/pull.h"
#include "lib/workers/worker_log.h"
#include "lib/workers/worker_timeline.h"

namespace sluice {

/// What a worker needs to know of the run.
struct WorkerSettings {
  Plans plans = {};
  std::uint64_t seed = 0;
  Masks masks = Masks::philox;
  std::int64_t turns = 0;
  std::int64_t turns_per_epoch = 1;
  std::int64_t evaluation_batches = 0;
  std::int64_t validation_batches = 0;  ///< of those, the first ones
  std::int64_t log_every = 1;           ///< turns between training records
  Loss loss = {};  ///< of the run: what an evaluation reports
  Precision precision = Precision::fp32;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  std::string checkpoint_folder = {};  ///< empty: nothing is saved
  OptimizerOptions optimizer = {};
  /// Gradients of an update's window are averaged, not summed.
  bool accumulate_mean = false;
  /// An update whose gradient is older fails the run, in batches.
  std::int64_t max_staleness = kUnbounded;
  TracedTurns traced = {};
  /// Tell once a second how it goes, by a record of the kind "status".
  bool status = false;
  /// Write a hash of every gradient and tensor after each update.
  bool hashes = false;
  /// How long a block that runs free sleeps before it waits for a certain
  /// neighbour.
  Deadline patience = std::chrono::minutes(10);
};

/// What a worker works with. The sources are needed by block 1 only, the one of
/// training by unlocked blocks too; `above` and `below` where there is a
/// neighbour.
struct WorkerParts {
  Block block;
  /// Of the boundary above the block, by phase; phases may share one.
  std::vector<std::shared_ptr<Lower>> lowers = {};
  /// Of the boundary below, likewise. Empty: plain ones.
  std::vector<std::shared_ptr<Upper>> uppers = {};
  Link below = {};
  Link above = {};
  /// Of the boundaries below and above; nullptr: tensors go as they are.
  /// Through them go activations, of evaluations too, and all gradients at h_k.
  /// What upper ends answer beside gradients, norms, labels and attachments
  /// don't.
  std::shared_ptr<const Codec> codec_below = nullptr;
  std::shared_ptr<const Codec> codec_above = nullptr;
  std::shared_ptr<Source> training = nullptr;
  std::shared_ptr<Source> evaluation = nullptr;
  std::shared_ptr<Sink> sink = nullptr;
  /// Charged with what the worker's actions allocate.
  std::shared_ptr<MemoryAccount> memory = nullptr;
  std::shared_ptr<Witness> witness = nullptr;
};

/// Executes the actions of one block, on its device: what the ends of
/// its boundaries hold is brought there. The only thing that owns weights,
/// optimizer and autograd graphs; one thread uses it.
class Worker {
 public:
  Worker(WorkerSettings settings, WorkerParts parts);

  /// Waits for what the action needs, computes, sends. Throws LinkError when a
  /// neighbour is gone, UserError and InternalError as their texts say.
  void execute(const Action& action);

  int block() const { return parts_.block.index(); }
  /// What the block trains and keeps: its own and its ends'.
  NamedTensors weights() const;
  /// What its ends copy from other blocks before they train, by the names
  /// of what is copied.
  NamedTensors copied() const;
  /// What a checkpoint holds beside the weights: the optimizer's state,
  /// counters
  /// ("workers.<k>.*"), and what is in flight ("flights.<k>.<batch>.*",
  /// "sent.<k>.<batch>.*").
  NamedTensors state() const;
  /// Takes what weights() and state() gave at the same turn, by name; more may
  /// be there. `source` is named in errors. Before start().
  void restore(const NamedTensors& weights, const NamedTensors& state,
               std::string_view source);
  /// Before the first action: sends again what was under way to a neighbour
  /// when the run that is continued was saved. `first` is the run's first
  /// grant.
  void start(const Grant& first);
  /// The gradients of the last backward, in the order of the parameters: for
  /// tests and probes. Undefined where a parameter got none.
  const Tensors& gradients() const { return pending_.gradients; }
  std::int64_t weight_version() const { return version_; }
  /// Batches between their forward and their backward, and how many of them
  /// have a graph.
  std::size_t flights() const { return flights_.size(); }
  std::size_t graphs() const;
  /// What it has done, and so what it may do next.
  const Ledger& ledger() const { return ledger_; }

  // Of a block that runs free on a thread of its own (FreeLoop). In the virtual
  // engine and in a replay the simulation answers these questions.

  /// Before the first action: the bell is rung when a message has come or one
  /// has room, and the sender drops by itself what the plan says.
  void run_free(const std::shared_ptr<Bell>& bell);
  /// Sleeps until the bell has been rung more often than `heard` times; false
  /// when its patience ends first.
  bool wait(const Bell& bell, std::uint64_t heard);
  /// Sends what waits for room and has it now.
  void flush();
  /// The message from below that comes next, if it has come.
  std::optional<MessageHead> next_from_below() const;
  /// Whether execute() would not wait for an input or for room, or would throw
  /// because a neighbour is gone. Sets action.arrived.
  bool is_ready(Action& action);
  /// The batches whose activations were dropped since the last call.
  std::vector<std::int64_t> take_dropped();

  // What the simulation has decided, or a record says, of slow_consumer.

  /// Activations of the boundary above were dropped, which is only counted.
  void count_dropped(std::size_t messages);
  /// Activations of the boundary below that shall not be seen when they come.
  void skip(const std::vector<std::int64_t>& batches);

  /// After the last action: writes a record of what the block has cost, and
  /// closes the links; what was sent arrives.
  void finish();
  /// After finish(), where the neighbours work at the same time: takes what
  /// they still send and nobody needs here (gradients that stay in flight,
  /// activations that a replay buffer has no use for) until they have finished
  /// too, so that none finds its neighbour gone.
  void outlast_neighbours();

 private:
  /// Gradients between a backward and its update.
  struct Pending {
    Tensors gradients;
    std::int64_t batches = 0;     // that they are the sum of
    std::int64_t turns = 0;       // that they are all batches of
    std::int64_t first_turn = 0;  // whose batches they are
    Staleness in_batches = {};
    Staleness in_updates = {};
    double squared_norm_above = 0;
  };
  /// A batch between its backward and the lesson that a source takes from it.
  struct ToLearn {
    Tensors features = {};
    at::Tensor labels = {};
    Tensors from_above = {};  // if backward has taken it
    Pass pass = {};
    Tensors answer = {};  // likewise
  };
  /// What goes down a boundary for a batch.
  struct Down {
    std::vector<Tensors> gradients = {};  // by way
    Tensors answer = {};
  };
  /// A backward: what its signal is, before it is taken back.
  struct Asked {
    Flight flight;
    Graph graph = {};
    std::vector<Pull> pulls = {};
    Signal signal = {};
    ToLearn lesson = {};
  };
  /// What an end trains apart from the block's optimizer.
  struct Learners {
    NamedTensors tensors;
    std::unique_ptr<UpdateChain> update;
  };
  /// A phase of the timetable.
  struct Stage {
    std::shared_ptr<Lower> lower;
    std::shared_ptr<Upper> upper;
    std::vector<std::size_t> trained =
        {};  // where the lower end's parameters are in trained_
    std::size_t learners = 0;        // of the lower end: index in learners_
    std::size_t upper_learners = 0;  // likewise
  };
  void forward(const Action& action);
  void backward(const Action& action);
  void backward_input(const Action& action);
  void backward_weights(const Action& action);
  void update(const Action& action);
  void learn(const Action& action);
  void learn_input(const Action& action);
  void evaluate(const Action& action);
  void checkpoint(const Action& action);

  void add_stage(std::shared_ptr<Lower> lower, std::shared_ptr<Upper> upper);
  void train(Stage& stage, NamedTensors parameters);
  void bring_here(const BoundaryEnd& end) const;
  std::size_t add_learners(NamedTensors tensors,
                           const OptimizerOptions* own_options);
  /// `turn`: with which the phase begins.
  void enter(std::int64_t phase, std::int64_t turn);
  const BlockPlan& plan() const;
  const RunPlan& run_plan() const;
  Lower& lower() { return *stages_[phase()].lower; }
  Upper& upper() { return *stages_[phase()].upper; }
  Learners& learners() { return learners_[stages_[phase()].learners]; }
  std::size_t phase() const { return static_cast<std::size_t>(phase_); }
  bool is_last() const;
  Pass pass_for(const Action& action, bool training) const;
  const c10::Device& device() const { return parts_.block.device(); }
  Payload take_payload(const Action& action, MessageKind kind, Source* source);
  Payload read(Source& source, const Action& action) const;
  InputContext input_context(const Action& action);
  /// From the block below, or from the replay buffer between the blocks.
  Message take_message(const Action& action, MessageKind kind);
  void fill_buffer(std::int64_t arrived);
  void write_to_buffer(Message message);
  void take_what_has_arrived();
  std::optional<Message> receive_any(Receiver& from);
  Message take_evaluation(std::int64_t batch);
  Message receive(Receiver& from, MessageKind kind, const Action& action);
  Message message_of(MessageKind kind, const Action& action) const;
  void send(Sender& to, Message message);
  void perform(const Action& action);
  void tell_status(const Action& action);
  void send_up(const Action& action, MessageKind kind, const Tensors& outputs,
               const Payload& fed);
  Attachments kept_of(const Payload& fed) const;
  Signal ask(const BatchContext& context);
  std::vector<Pull> pulls_of(const BatchContext& context,
                             const std::vector<Tensors>& arrived,
                             Signal& signal);
  Asked ask_above(const Action& action);
  void apply(const Action& action, const Asked& asked,
             const Tensors& parameters);
  void accumulate(const Action& action, const Tensors& own,
                  const Tensors& of_lower);
  void remember_sent(std::int64_t batch, const Down& down);
  void start_free(const Grant& first);
  Down down_of(std::vector<Tensors> gradients);
  void send_down(const Action& action, const Down& down);
  Down receive_from_above(const Action& action);
  double rate_of(const UpdateChain& update, const Action& action) const;
  double exchange_norm(const Action& action);
  void step(Learners& learners, Tensors gradients, const Action& action);
  /// A due turn, or the first update after one.
  bool is_logged(const Action& action) const;
  void check_staleness(const Action& action) const;
  void watch(const Action& action);
  void hash(const Action& action);

  std::string name_in_state(std::string_view what) const;
  void restore_flights(const SavedState& saved);
  void restore_lessons(const SavedState& saved);
  std::vector<std::int64_t> awaited_below(const SavedState& saved) const;
  void restore_sent(const SavedState& saved);
  void restore_pending(const SavedState& saved);
  void restore_counts(const SavedState& saved);
  void note_memory();
  void note_graphs(std::int64_t of_backward);
  Record costs() const;

  WorkerSettings settings_;
  WorkerParts parts_;
  NamedTensors trained_;  // the block's parameters, then the lower ends'
  std::unique_ptr<UpdateChain> update_;
  std::vector<Learners> learners_;
  std::vector<Stage> stages_;  // by phase
  std::int64_t phase_ = 0;
  std::unique_ptr<History> history_;
  std::optional<ReplayBuffer> buffer_;  // BlockPlan::replay
  LossySender* lossy_ = nullptr;        // parts_.above.sender, if it is one
  std::set<std::int64_t> skipped_;      // batches
  std::size_t dropped_ = 0;             // messages
  Ledger ledger_;
  std::map<std::int64_t, Flight> flights_;   // by batch
  std::map<std::int64_t, ToLearn> lessons_;  // by batch
  std::map<std::int64_t, Asked> halves_;     // by batch: sent down, not applied
  /// By batch: what may be under way.
  std::map<std::int64_t, Down> sent_down_;
  Pending pending_;
  std::int64_t version_ = 0;
  std::int64_t first_batch_ = 0;  // Grant's
  std::int64_t last_turn_ = -1;   // that went backward
  std::pair<std::int64_t, std::int64_t> watched_ = {-1, -1};  // phase, turn
  std::optional<Application> seen_;

  TimeSpent spent_;
  std::optional<GpuClock> gpu_clock_;  // of a block on a GPU
  MemoryUse memory_use_;
  WorkerLog log_;
  WorkerTimeline timeline_;
  SteadyTime told_ = std::chrono::steady_clock::now();  // the status
  Evaluation evaluation_;
  Evaluation validation_;  ///< of its own batches, which come first
};

}  // namespace sluice
