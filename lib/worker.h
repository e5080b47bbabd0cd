#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/channel.h"
#include "lib/base/memory/account.h"
#include "lib/block.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/evaluation.h"
#include "lib/histories/history.h"
#include "lib/loss.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"
#include "lib/optimizers/optimizer.h"
#include "lib/policy.h"
#include "lib/precision.h"
#include "lib/schedules/plan.h"
#include "lib/source.h"

namespace sluice {

/// What a worker needs to know of the run.
struct WorkerSettings {
  RunPlan plan = {};
  std::uint64_t seed = 0;
  std::int64_t turns = 0;
  std::int64_t turns_per_epoch = 1;
  std::int64_t evaluation_batches = 0;
  std::int64_t log_every = 1;  ///< turns between training records
  Loss loss = {};              ///< of the run: what an evaluation reports
  Precision precision = Precision::fp32;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  std::string checkpoint_folder = {};  ///< empty: nothing is saved
  OptimizerOptions optimizer = {};
  /// Gradients of an update's window are averaged, not summed.
  bool accumulate_mean = false;
};

/// What a worker works with. The sources are needed by block 1 only, `above`
/// and `below` where there is a neighbour.
struct WorkerParts {
  Block block;
  std::unique_ptr<Policy> policy;  ///< of the boundary above the block
  Link below = {};
  Link above = {};
  std::shared_ptr<Source> training = nullptr;
  std::shared_ptr<Source> evaluation = nullptr;
  std::shared_ptr<Sink> sink = nullptr;
  /// Charged with what the worker's actions allocate.
  std::shared_ptr<MemoryAccount> memory = nullptr;
};

/// Executes the actions of one block. The only thing that owns weights,
/// optimizer and autograd graphs; one thread uses it.
class Worker {
 public:
  Worker(WorkerSettings settings, WorkerParts parts);

  /// Waits for what the action needs, computes, sends. Throws LinkError when a
  /// neighbour is gone, UserError and InternalError as their texts say.
  void execute(const Action& action);

  int block() const { return parts_.block.index(); }
  /// What the block trains and keeps: its own and its policy's.
  NamedTensors weights() const;
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
  /// After the last action: writes a record of what the block has cost, and
  /// closes the links; what was sent arrives.
  void finish();

 private:
  /// Gradients between a backward and its update.
  struct Pending {
    Tensors gradients;
    std::int64_t batches = 0;  // that they are the sum of
    std::int64_t first_batch = 0;
    double squared_norm_above = 0;
    std::int64_t steps_between = 0;
    at::Tensor loss;
    at::Tensor correct;
    std::int64_t labels = 0;
  };
  /// A batch between its backward and the lesson that a source takes from it.
  struct ToLearn {
    Tensors features;
    at::Tensor labels;
    Tensors from_above;  // if backward has taken it
    Pass pass;
  };
  struct Fed {
    Tensors inputs;
    at::Tensor labels;
    at::Tensor raw_input = {};
  };

  void forward(const Action& action);
  void backward(const Action& action);
  void update(const Action& action);
  void learn(const Action& action);
  void evaluate(const Action& action);
  void checkpoint(const Action& action);

  const BlockPlan& plan() const;
  bool is_last() const;
  Pass pass_for(const Action& action, bool training) const;
  Fed take_inputs(const Action& action, MessageKind kind, Source* source);
  Message receive(Receiver& from, MessageKind kind, std::int64_t batch);
  void send(Sender& to, Message message);
  void send_up(const Action& action, MessageKind kind, const Tensors& outputs,
               const Fed& fed);
  Flight take_flight(const Action& action);
  void accumulate(Tensors gradients);
  void remember_sent(std::int64_t batch, const Tensors& gradients);
  void restore_flights(const SavedState& saved);
  std::string name_in_state(std::string_view what) const;
  void send_down(const Action& action, const Tensors& gradients);
  Tensors first_layer() const;
  Tensors receive_gradient(const Action& action);
  void restore_lessons(const SavedState& saved);
  double rate_of(const OptimizerOptions& options, const Action& action) const;
  void clip(const Action& action);
  bool is_logged(const Action& action) const;
  void log_training(const Action& action, double learning_rate);
  void log_evaluation(const Action& action);
  Record costs() const;

  WorkerSettings settings_;
  WorkerParts parts_;
  NamedTensors trained_;  // the block's parameters, then the policy's
  std::unique_ptr<Optimizer> optimizer_;
  OptimizerOptions learners_options_;
  std::unique_ptr<Optimizer> learners_optimizer_;
  std::unique_ptr<History> history_;
  std::map<std::int64_t, Flight> flights_;     // by batch
  std::map<std::int64_t, ToLearn> lessons_;    // by batch
  std::map<std::int64_t, Tensors> sent_down_;  // by batch: maybe under way
  Pending pending_;
  std::int64_t version_ = 0;
  std::size_t learners_ = 0;
  std::int64_t first_batch_ = 0;  // Grant's
  std::int64_t last_turn_ = -1;   // that went backward

  TimeSpent spent_;
  Evaluation evaluation_;
};

}  // namespace sluice
