#include "experiments/rehearsal.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "experiments/assembly.h"
#include "lib/base/memory/cached_buffers.h"
#include "lib/base/memory_channel.h"
#include "lib/codecs/coded.h"
#include "lib/memory/allocator.h"
#include "lib/metrics/time_spent.h"
#include "lib/pack.h"
#include "lib/pull.h"
#include "lib/schedules/simulation.h"

namespace sluice {
namespace {

constexpr std::int64_t kWarmUp = 3;  // turns after the pipe has filled
constexpr std::int64_t kMeasured = 7;
constexpr auto kUnlimited = std::numeric_limits<std::size_t>::max();
constexpr Deadline kPatience = std::chrono::seconds(60);

using Timings = std::map<ActionKind, std::vector<double>>;

double median(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[middle]
                                 : (seconds[middle - 1] + seconds[middle]) / 2;
}

std::int64_t warm_turn(const RunPlan& plan) {
  std::int64_t longest = 0;
  for (const BlockPlan& block : plan.blocks)
    longest = std::max({longest, turns_in_flight(block), block.accumulate - 1,
                        block.in_flight});
  return longest + kWarmUp;
}

/// Keeps the record of what a block has cost.
class CostsOfBlock final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "block") costs = record;
  }
  Record costs;
};

/// The gradients at tensors like these, or at the layer whose weights come down
/// in their place.
Message gradients_like(const Tensors& features, const RunPlan& plan, int ways,
                       const Codec* codec) {
  Message message{.kind = MessageKind::gradient};
  for (int way = 0; way < ways; ++way) {
    Tensors zeros;
    for (const at::Tensor& feature : features)
      zeros.push_back(at::zeros_like(feature));
    pack(zeros, gradient_name(static_cast<std::size_t>(way)), codec, message);
  }
  if (plan.model_norm)
    pack({at::scalar_tensor(1.0, at::kDouble)}, "norm", message);
  return message;
}

Message copy_of(Message message, const BufferSource& buffers) {
  for (TensorView& tensor : message.tensors) {
    const Buffer from = tensor.buffer;
    tensor.buffer = buffers(from.bytes);
    std::memcpy(tensor.buffer.data, from.data, from.bytes);
  }
  return message;
}

/// One block between neighbours that are made up. What they send lies in memory
/// that is charged to it, as messages of another process do.
class LonelyBlock {
 public:
  /// `activation`: what the block below sends; none below block 1.
  LonelyBlock(const Experiment& experiment, int block,
              std::optional<Message> activation)
      : experiment_(experiment),
        block_(block),
        activation_(std::move(activation)) {
    Ends ends{.memory = memory_of_block(block)};
    if (allocator_installed()) buffers_ = cached_buffers(ends.memory);
    if (block > 1)
      std::tie(below_, ends.below) =
          memory_link(kUnlimited, kUnlimited, kPatience);
    if (block < experiment.blocks())
      std::tie(ends.above, above_) =
          memory_link(kUnlimited, kUnlimited, kPatience);
    // Nothing is saved, but one that may have to save keeps more.
    worker_ = make_worker(experiment, block, std::move(ends), sink_,
                          {.checkpoints = "nowhere"});
  }

  void act(const std::vector<Action>& actions, std::int64_t warm) {
    worker_->start({});
    for (const Action& action : actions) {
      supply(action);
      const SteadyTime start = std::chrono::steady_clock::now();
      worker_->execute(action);
      if (action.turn >= warm)
        timings_[action.kind].push_back(seconds_since(start));
      take_away();
    }
    worker_->finish();
  }

  /// What it sent up for its first batch, for the next block's rehearsal.
  std::optional<Message> sent_up() { return std::move(sent_up_); }
  const Record& record() const { return sink_->costs; }
  BlockCosts seconds() const {
    const auto of = [&](ActionKind kind) {
      const auto found = timings_.find(kind);
      return found == timings_.end() ? 0 : median(found->second);
    };
    return {.forward = of(ActionKind::forward),
            .backward = of(ActionKind::backward),
            .update = of(ActionKind::update),
            .learn = of(ActionKind::learn),
            .learn_input = of(ActionKind::learn_input),
            .replay = 0};
  }

 private:
  const RunPlan& plan() const { return experiment_.plans.front(); }

  /// Sends what the action waits for.
  void supply(const Action& action) {
    const auto& mine = plan().blocks[static_cast<std::size_t>(block_) - 1];
    if (mine.replay && action.kind == ActionKind::forward)
      for (; arrived_ < action.arrived; ++arrived_)
        give(*below_.sender, *activation_, arrived_);
    for (const Transfer& need : needs_of(plan(), block_, action)) {
      if (need.kind == MessageKind::activation)
        give(*below_.sender, *activation_, need.batch);
      else if (need.kind == MessageKind::gradient)
        give(*above_.sender, gradient(), need.batch);
      else
        give(*below_.sender, norm(), need.batch);
    }
  }

  void give(Sender& to, const Message& message, std::int64_t batch) const {
    Message given = copy_of(message, buffers_);
    given.batch = batch;
    to.send(std::move(given));
  }

  const Message& gradient() {
    if (gradient_.tensors.empty()) {
      const BlockPlan& above = plan().blocks[static_cast<std::size_t>(block_)];
      const auto codec = codec_above(experiment_, block_);
      gradient_ = above.first_layer_to_below
                      ? gradients_like(first_layer_above(), plan(), 1, nullptr)
                      : gradients_like(unpack(*sent_up_, "h", codec.get()),
                                       plan(), above.leaving, codec.get());
    }
    return gradient_;
  }

  Tensors first_layer_above() const {
    const std::int64_t first =
        experiment_.ranges[static_cast<std::size_t>(block_)].first;
    return values_of(make_block(experiment_.model, block_ + 1, first, first,
                                experiment_.seed, experiment_.memory_format)
                         .parameters());
  }

  static Message norm() {
    Message message{.kind = MessageKind::norm};
    pack({at::scalar_tensor(1.0, at::kDouble)}, "norm", message);
    return message;
  }

  void take_away() {
    while (below_.receiver && below_.receiver->ready())
      below_.receiver->receive();
    while (above_.receiver && above_.receiver->ready()) {
      std::optional<Message> message = above_.receiver->receive();
      if (!sent_up_ && message->kind == MessageKind::activation)
        sent_up_ = copy_of(*message, allocate_buffer);
    }
  }

  const Experiment& experiment_;
  int block_;
  std::optional<Message> activation_;
  BufferSource buffers_ = allocate_buffer;
  Link below_;  // the neighbours' ends
  Link above_;
  std::shared_ptr<CostsOfBlock> sink_ = std::make_shared<CostsOfBlock>();
  std::unique_ptr<Worker> worker_;
  std::optional<Message> sent_up_;
  Message gradient_;
  std::int64_t arrived_ = 0;
  Timings timings_;
};

MemoryForecast memory_in(const Record& record) {
  const auto bytes = [&](const char* name) { return record.integer(name); };
  return {.weights = bytes("weights_bytes"),
          .optimizer = bytes("optimizer_bytes"),
          .graph = bytes("graph_bytes"),
          .stash = bytes("stash_bytes"),
          .history = bytes("history_bytes"),
          .queue = bytes("queue_bytes"),
          .peak = bytes("peak_bytes")};
}

/// The most messages of a direction that have come and wait, when the blocks
/// take so long: index of the boundary - 1, upwards and downwards.
struct Waiting {
  std::int64_t up = 0;
  std::int64_t down = 0;
};

/// Arrivals (+1) and departures (-1) in their order; at one time departures
/// come first.
std::int64_t most_at_once(std::vector<std::pair<double, int>>& changes) {
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [time, change] : changes)
    most = std::max(most, now += change);
  return most;
}

std::vector<Waiting> waiting_in(const std::vector<TimedAction>& timeline,
                                const RunPlan& plan, double latency) {
  const std::size_t boundaries = plan.blocks.size() - 1;
  std::vector<std::vector<std::pair<double, int>>> up(boundaries);
  std::vector<std::vector<std::pair<double, int>>> down(boundaries);
  const auto of = [&](const Transfer& transfer) -> auto& {
    const auto lower =
        static_cast<std::size_t>(std::min(transfer.from, transfer.to)) - 1;
    return transfer.from < transfer.to ? up[lower] : down[lower];
  };
  for (const TimedAction& timed : timeline) {
    for (const Transfer& sent : yields_of(plan, timed.block, timed.action))
      of(sent).emplace_back(timed.end + latency, 1);
    for (const Transfer& taken : needs_of(plan, timed.block, timed.action))
      of(taken).emplace_back(timed.start, -1);
  }
  std::vector<Waiting> waiting(boundaries);
  for (std::size_t i = 0; i < boundaries; ++i)
    waiting[i] = {most_at_once(up[i]), most_at_once(down[i])};
  return waiting;
}

void add_queues(const Experiment& experiment,
                const std::vector<TimedAction>& timeline,
                std::vector<Rehearsal>& rehearsals) {
  const std::vector<Waiting> waiting =
      waiting_in(timeline, experiment.plans.front(), experiment.costs.latency);
  for (std::size_t boundary = 0; boundary < waiting.size(); ++boundary) {
    const MessageBytes& bytes = experiment.costs.bytes.at(boundary);
    const Capacity& capacity = experiment.capacities.at(boundary);
    const double up = static_cast<double>(capacity.up) * bytes.activation;
    const double down = static_cast<double>(capacity.down) * bytes.gradient;
    const auto add = [&](Rehearsal& to, std::int64_t messages, double each) {
      const auto more =
          static_cast<std::int64_t>(static_cast<double>(messages) * each);
      to.memory.queue += more;
      if (to.memory.peak > 0) to.memory.peak += more;
      to.memory.channels += static_cast<std::int64_t>(up + down) - more;
    };
    add(rehearsals[boundary], waiting[boundary].down, bytes.gradient);
    add(rehearsals[boundary + 1], waiting[boundary].up, bytes.activation);
  }
}

std::vector<TimedAction> timeline_at(const Experiment& experiment,
                                     const Costs& costs) {
  const RunPlan& plan = experiment.plans.front();
  const Grant grant{.end_turn =
                        warm_turn(plan) +
                        std::max(kMeasured, plan.blocks.front().accumulate)};
  return simulate(plan, costs, experiment.capacities, grant);
}

std::vector<Action> actions_of_block(const std::vector<TimedAction>& timeline,
                                     int block) {
  std::vector<Action> actions;
  for (const TimedAction& timed : timeline)
    if (timed.block == block) actions.push_back(timed.action);
  return actions;
}

}  // namespace

Record to_record(const MemoryForecast& memory, int block) {
  Record record;
  record.set("kind", "forecast");
  record.set("block", std::int64_t{block});
  record.set("weights_bytes", memory.weights);
  record.set("optimizer_bytes", memory.optimizer);
  record.set("stash_bytes", memory.stash);
  record.set("history_bytes", memory.history);
  record.set("queue_bytes", memory.queue);
  if (memory.peak == 0) return record;
  record.set("graph_bytes", memory.graph);
  record.set("peak_bytes", memory.peak);
  record.set("channels_bytes", memory.channels);
  return record;
}

std::vector<Rehearsal> rehearse(const Experiment& given) {
  Experiment experiment = given;
  experiment.initial_weights.clear();
  const auto order = timeline_at(experiment, {});
  const std::int64_t warm = warm_turn(experiment.plans.front());
  std::vector<Rehearsal> rehearsals;
  std::optional<Message> from_below;
  Costs costs = experiment.costs;
  costs.blocks.clear();
  for (int block = 1; block <= experiment.blocks(); ++block) {
    LonelyBlock lonely(experiment, block, std::move(from_below));
    lonely.act(actions_of_block(order, block), warm);
    from_below = lonely.sent_up();
    rehearsals.push_back({lonely.seconds(), memory_in(lonely.record())});
    costs.blocks.push_back(lonely.seconds());
  }
  if (experiment.blocks() > 1)
    add_queues(experiment, timeline_at(experiment, costs), rehearsals);
  return rehearsals;
}

}  // namespace sluice
