#include "experiments/planner/method_axes.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/tables/block_layers.h"
#include "experiments/config/virtual_time.h"
#include "experiments/runs/processes/crews.h"
#include "lib/base/by_block.h"
#include "lib/engines/coordinator.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/peers.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/tensors/tensors.h"

namespace sluice::planner {
namespace {

// The turns for whose batches actions are counted, whenever these are done: the
// pipe is full, and each of the batches is applied before the run ends.
constexpr std::int64_t kFirstCounted = 10;
constexpr std::int64_t kEndCounted = 22;

/// Figures that the records of a run give.
class RecordTally final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto train = record.as<records::Train>()) {
      batches = std::max(batches, train->d_batch);
      updates = std::max(updates, train->d_upd);
    }
    if (const auto block = record.as<records::Block>();
        block && block->replica.value_or(1) == 1) {
      weights += block->memory.weights_bytes.value_or(0);
      stashed += block->memory.stash_bytes.value_or(0);
    }
  }

  std::int64_t batches = 0;
  std::int64_t updates = 0;
  std::int64_t weights = 0;  // bytes of replica 1
  std::int64_t stashed = 0;
};

/// A backward takes two forwards, and messages cross in no time; their bytes
/// are the experiment's, without labels.
Costs costs_of_trial(const Experiment& experiment) {
  Costs costs{.blocks = std::vector<BlockCosts>(
                  static_cast<std::size_t>(experiment.blocks()),
                  {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}),
              .bytes = experiment.costs.bytes};
  for (int k = 1; k < experiment.blocks(); ++k)
    by_block(costs.bytes, k).activation = bytes_of_features(
        experiment.model, by_block(experiment.ranges, k),
        experiment.batch_size / experiment.micro_batches.count,
        experiment.precision);
  return costs;
}

/// Counts what blocks do and send for the batches of the counted turns.
class ActionTally {
 public:
  /// checkpoints: whether each half of a backward runs the layers again.
  ActionTally(const RunPlan& plan, const Costs& costs, bool checkpoints)
      : plan_(plan),
        costs_(by_seat(costs, plan)),
        checkpoints_(checkpoints ? 1 : 0) {}

  void add(const TimedAction& timed) {
    const Action& action = timed.action;
    const BlockPlan& block = by_block(plan_.blocks, timed.seat);
    const std::int64_t turn = block.micro_batches.turn_of(action.batch);
    if (turn < kFirstCounted || turn >= kEndCounted) return;
    count(action, block);
    for (const Transfer& sent : yields_of(plan_, timed.seat, action))
      bytes_ += bytes_of(costs_, sent);
  }

  void tell(MethodAxes& axes) const {
    axes.forwards = again_ / batches_;
    axes.backwards = backwards_ / batches_ - 1;
    axes.lessons = lessons_ / batches_;
    double activations = 0;
    for (int k = 1; k < plan_.depth(); ++k)
      activations += by_block(costs_.bytes, k).activation;
    // Each block forwards each batch once.
    if (activations > 0)
      axes.boundary_bytes = bytes_ / (activations * batches_ / plan_.depth());
  }

 private:
  void count(const Action& action, const BlockPlan& block) {
    switch (action.op) {
      case Op::forward:
        batches_ += 1;
        break;
      case Op::backward:
        backwards_ += 1;
        again_ += checkpoints_;
        if (action.round == 0) again_ += forwards_again(block);
        break;
      case Op::backward_input:
        backwards_ += 0.5;
        again_ += checkpoints_ + forwards_again(block);
        break;
      case Op::backward_weights:
        backwards_ += 0.5;
        again_ += checkpoints_;
        break;
      case Op::learn:
      case Op::learn_input:
        lessons_ += 1;
        break;
      default:
        break;
    }
  }

  /// Forwards that a backward repeats; an input that is rebuilt takes one too.
  static double forwards_again(const BlockPlan& block) {
    if (!replays(block)) return 0;
    return block.weights.rebuilds ? 2 : 1;
  }

  const RunPlan& plan_;
  const Costs costs_;
  const double checkpoints_;
  double batches_ = 0;
  double again_ = 0;
  double backwards_ = 0;
  double lessons_ = 0;
  double bytes_ = 0;
};

void run_trial(const Experiment& experiment, MethodAxes& axes) {
  const Costs costs = costs_of_trial(experiment);
  ActionTally counted(experiment.plans.front(), costs,
                      experiment.checkpoint_layers > 0);
  const auto seen = std::make_shared<RecordTally>();
  Coordinator coordinator(experiment.length, experiment.seats(), seen, nullptr);
  const auto crew = make_virtual_crew(
      {.experiment = experiment, .events = events_for(coordinator)},
      {.costs = costs,
       .watch = [&](const TimedAction& timed) { counted.add(timed); }});
  run_to_end(*crew, coordinator);
  counted.tell(axes);
  axes.batches = seen->batches;
  axes.updates = seen->updates;
  if (seen->weights > 0)
    axes.copies +=
        static_cast<double>(seen->stashed) / static_cast<double>(seen->weights);
}

int blocks_with_own_signals(const RunPlan& plan) {
  int count = 0;
  for (int k = 1; k < plan.depth(); ++k) {
    const auto& parts = by_block(plan.blocks, k).gradients.parts;
    const bool has_own =
        std::any_of(parts.begin(), parts.end(),
                    [](const GradientPart& part) { return part.own; });
    count += has_own ? 1 : 0;
  }
  return count;
}

/// Amount that a replica sends in an exchange, in units of what it exchanges:
/// of a sum as exchange_seconds() has it, and of peers on average over many
/// exchanges.
double sent_in_exchange(const ReplicaExchange& exchange) {
  if (exchange.what == ExchangedTensors::nothing) return 0;
  if (exchange.served)  // to a centre, and back
    return 2.0 * visitors_of(exchange) / exchange.members;
  if (exchange.graph.is_all()) {
    const int halves = exchange.shards ? 2 : exchange.halves();
    return static_cast<double>(halves * (exchange.members - 1) *
                               exchange.rounds) /
           exchange.parts();
  }
  constexpr std::int64_t kExchanges = 64;
  std::int64_t messages = 0;
  for (std::int64_t i = 0; i < kExchanges; ++i)
    messages += messages_of(exchange.graph, exchange.members, i);
  return static_cast<double>(messages) /
         static_cast<double>(kExchanges * exchange.members);
}

NamedTensors named_parameters_of(const Experiment& experiment, int block) {
  NamedTensors parameters;
  const LayerRange range = by_block(experiment.ranges, block);
  for (std::int64_t i = range.first; i <= range.last; ++i) {
    const auto layer =
        experiment.model.layers.at(static_cast<std::size_t>(i)).make();
    for (const auto& parameter : layer->named_parameters())
      if (parameter.value().requires_grad())
        parameters.emplace_back(fmt::format("layers.{}.{}", i, parameter.key()),
                                parameter.value());
  }
  return parameters;
}

/// What policy and compressor of a replica keep of a block, in bytes.
std::int64_t bytes_kept_for_replicas(const Experiment& experiment, int block) {
  const ReplicaKind& kind = experiment.replicas.kind;
  const auto members = static_cast<int>(experiment.replicas.count);
  const NamedTensors parameters = named_parameters_of(experiment, block);
  std::int64_t bytes = 0;
  const ReplicaSite site{.seed = experiment.seed,
                         .member = 1,
                         .members = members,
                         .compresses = kind.compressor.make != nullptr};
  if (kind.make) {
    const ReplicaRules rules = kind.make(parameters, site);
    if (rules.policy) bytes += bytes_of(values_of(rules.policy->state()));
  }
  if (kind.compressor.make) {
    const auto compressor = kind.compressor.make(parameters, site);
    bytes += bytes_of(values_of(compressor->state()));
  }
  return bytes;
}

void add_replicas(const Experiment& experiment, MethodAxes& axes) {
  const std::vector<BlockPlan>& blocks = experiment.plans.front().blocks;
  const ReplicaExchange& exchange = blocks.front().exchange;
  double model = 0;
  double sent = 0;
  double kept = 0;
  for (int k = 1; k <= experiment.blocks(); ++k) {
    const BlockPlan& block = by_block(blocks, k);
    model += parameter_bytes(experiment, by_block(experiment.ranges, k));
    sent += by_block(experiment.costs.exchange_bytes, k) *
            sent_in_exchange(block.exchange) /
            static_cast<double>(block.exchange.every * block.accumulate);
    kept += static_cast<double>(bytes_kept_for_replicas(experiment, k));
  }
  axes.replica_bytes = sent / model;
  axes.copies += kept / model;
  // A server makes no more than one step of what a replica brings.
  const bool steps_by_each =
      exchange.what == ExchangedTensors::gradients &&
      !exchange.graph.is_all() &&
      !(exchange.served && experiment.replicas.kind.tells_staleness);
  if (steps_by_each)
    axes.steps =
        1 + static_cast<double>(std::ssize(
                peers_of(exchange.graph, exchange.members, 1, 0).from));
  if (exchange.leaves_them_apart()) axes.apart = exchange.every;
}

void append_axis(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : "; ") + part;
}

/// A number with its noun: "1 update", "3 updates".
std::string counted_as(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

MethodAxes method_axes(const Experiment& experiment) {
  MethodAxes axes;
  axes.own_signals = blocks_with_own_signals(experiment.plans.front());
  axes.boundaries = experiment.blocks() - 1;
  run_trial(experiment, axes);
  if (experiment.replicas.count > 1) add_replicas(experiment, axes);
  return axes;
}

std::string computation_text(const MethodAxes& axes) {
  std::string text;
  if (axes.forwards > 0)
    append_axis(text, fmt::format("{:.3g} more forwards", axes.forwards));
  if (axes.backwards > 0)
    append_axis(text, fmt::format("{:.3g} more backwards", axes.backwards));
  if (axes.lessons > 0)
    append_axis(text, fmt::format("{:.3g} lessons", axes.lessons));
  if (axes.own_signals > 0)
    append_axis(text, fmt::format("signals made at {} of {} boundaries",
                                  axes.own_signals, axes.boundaries));
  if (axes.steps > 1)
    append_axis(text, fmt::format("{:.3g} steps to an update", axes.steps));
  return text.empty() ? "none" : text;
}

std::string communication_text(const MethodAxes& axes) {
  std::string text;
  if (axes.boundary_bytes > 0)
    append_axis(text, fmt::format("boundaries {:.3g} x their activations",
                                  axes.boundary_bytes));
  if (axes.replica_bytes > 0)
    append_axis(text, fmt::format("replicas {:.3g} x the model each",
                                  axes.replica_bytes));
  return text.empty() ? "none" : text;
}

std::string approximation_text(const MethodAxes& axes) {
  std::string text = fmt::format("{:.3g} x the weights", axes.copies);
  if (axes.batches > 0 || axes.updates > 0)
    append_axis(text,
                fmt::format("gradients up to {} ({}) late",
                            counted_as(axes.updates, "update"),
                            axes.batches == 1
                                ? "1 batch"
                                : fmt::format("{} batches", axes.batches)));
  if (axes.apart > 0)
    append_axis(text,
                axes.apart == 1
                    ? std::string("replicas differ, and meet in each update")
                    : fmt::format("replicas differ, and meet in every {} "
                                  "updates",
                                  axes.apart));
  return text;
}

}  // namespace sluice::planner
