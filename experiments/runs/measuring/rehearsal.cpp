#include "experiments/runs/measuring/rehearsal.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "experiments/runs/measuring/contended_timing.h"
#include "experiments/runs/measuring/isolated_block.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

/// The first turn at which the pipe and every history are full.
std::int64_t full_turn(const RunPlan& plan) {
  std::int64_t longest = 0;
  for (const BlockPlan& block : plan.blocks)
    longest = std::max({longest, turns_in_flight(block), block.accumulate - 1,
                        block.free.in_flight});
  return longest;
}

/// Memory of replica 1, which may have a centre beside its block.
records::Memory memory_of(const IsolatedBlock& block, const Experiment& given) {
  records::Memory memory = block.costs().memory;
  memory.channels_bytes = 0;
  if (has_centre(given.plans.front().blocks.front())) {
    const std::int64_t centre =
        block.bytes_of_centre(static_cast<int>(given.replicas.count));
    memory.centre_bytes = centre;
    if (memory.peak_bytes) *memory.peak_bytes += centre;
  }
  return memory;
}

/// The most messages of a direction that have come and wait, when the blocks
/// take so long: index of the boundary - 1, upwards and downwards.
struct WaitingMessages {
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

std::vector<WaitingMessages> waiting_in(
    const std::vector<TimedAction>& timeline, const RunPlan& plan,
    double latency) {
  const std::size_t boundaries = plan.blocks.size() - 1;
  std::vector<std::vector<std::pair<double, int>>> up(boundaries);
  std::vector<std::vector<std::pair<double, int>>> down(boundaries);
  const auto of = [&](const Transfer& transfer) -> auto& {
    const auto lower =
        static_cast<std::size_t>(std::min(transfer.from, transfer.to)) - 1;
    return transfer.from < transfer.to ? up[lower] : down[lower];
  };
  for (const TimedAction& timed : timeline) {
    for (const Transfer& sent : yields_of(plan, timed.seat, timed.action))
      of(sent).emplace_back(timed.end + latency, 1);
    for (const Transfer& taken : needs_of(plan, timed.seat, timed.action))
      of(taken).emplace_back(timed.start, -1);
  }
  std::vector<WaitingMessages> waiting(boundaries);
  for (std::size_t i = 0; i < boundaries; ++i)
    waiting[i] = {most_at_once(up[i]), most_at_once(down[i])};
  return waiting;
}

void add_queues(const Experiment& experiment,
                const std::vector<TimedAction>& timeline,
                std::vector<Rehearsal>& rehearsals) {
  const std::vector<WaitingMessages> waiting =
      waiting_in(timeline, experiment.plans.front(), experiment.costs.latency);
  for (std::size_t boundary = 0; boundary < waiting.size(); ++boundary) {
    const MessageBytes& bytes = experiment.costs.bytes.at(boundary);
    const Capacity& capacity = experiment.capacities.at(boundary);
    const double up = static_cast<double>(capacity.up) * bytes.activation;
    const double down = static_cast<double>(capacity.down) * bytes.gradient;
    const auto add = [&](Rehearsal& to, std::int64_t messages, double each) {
      const auto more =
          static_cast<std::int64_t>(static_cast<double>(messages) * each);
      *to.memory.queue_bytes += more;
      if (to.memory.peak_bytes) *to.memory.peak_bytes += more;
      *to.memory.channels_bytes += static_cast<std::int64_t>(up + down) - more;
    };
    add(rehearsals[boundary], waiting[boundary].down, bytes.gradient);
    add(rehearsals[boundary + 1], waiting[boundary].up, bytes.activation);
  }
}

/// The experiment without the short batches that epochs end with: messages that
/// are made up have one size.
Experiment in_whole_batches(Experiment experiment) {
  if (experiment.data->train.size() < experiment.batch_size) return experiment;
  experiment.drop_last = true;
  const auto make_whole = [](MicroBatches& cut) {
    cut.last_samples = cut.samples;
  };
  make_whole(experiment.micro_batches);
  for (RunPlan& plan : experiment.plans)
    for (BlockPlan& block : plan.blocks) make_whole(block.micro_batches);
  return experiment;
}

/// The turns of a rehearsal.
struct Turns {
  std::int64_t warm = 0;    ///< from which on they are measured
  std::int64_t end = 0;     ///< of those that a block does alone
  std::int64_t beside = 0;  ///< of those that it may do beside others
};

Turns turns_of(const RunPlan& plan, const RehearsalOptions& options) {
  const std::int64_t warm = full_turn(plan) + options.warm_up;
  const std::int64_t measured =
      std::max(options.measured, plan.blocks.front().accumulate);
  const std::int64_t end = warm + measured;
  // A block with little to do does many turns in the time of one of another.
  constexpr std::int64_t kMore = 100;
  return {warm, end, options.beside > 1 ? end + kMore * measured : end};
}

std::vector<TimedAction> timeline_at(const Experiment& experiment,
                                     const Costs& costs,
                                     std::int64_t end_turn) {
  return simulate(experiment.plans.front(), costs, experiment.capacities,
                  Grant{.end_turn = end_turn});
}

std::vector<Action> actions_of_block(const std::vector<TimedAction>& timeline,
                                     int block) {
  std::vector<Action> actions;
  for (const TimedAction& timed : timeline)
    if (timed.seat == block) actions.push_back(timed.action);
  return actions;
}

/// Executes and times the block's actions before turn turns.end; the rest stay
/// in `actions`.
BlockCosts act_alone(IsolatedBlock& block, std::deque<Action>& actions,
                     const Turns& turns) {
  Timings timings;
  block.start();
  for (; !actions.empty() && actions.front().turn < turns.end;
       actions.pop_front()) {
    const double seconds = block.act(actions.front());
    if (actions.front().turn >= turns.warm)
      timings.add(actions.front().op, seconds);
  }
  return timings.medians();
}

}  // namespace

records::Forecast forecast_of(const Rehearsal& rehearsal, int block) {
  records::Forecast forecast{.block = block, .memory = rehearsal.memory};
  if (!forecast.memory.peak_bytes) forecast.memory.channels_bytes.reset();
  return forecast;
}

namespace {

Performer performer_of(const Experiment& experiment, int block,
                       const std::vector<TimedAction>& order,
                       std::optional<Message> from_below) {
  Performer performer{.block = std::make_unique<IsolatedBlock>(
                          experiment, block, std::move(from_below))};
  for (Action& action : actions_of_block(order, block))
    performer.actions.push_back(std::move(action));
  return performer;
}

/// The experiment with one replica: all are alike.
Experiment of_one_replica(Experiment experiment) {
  experiment.replicas.count = 1;
  for (RunPlan& plan : experiment.plans) plan = first_replica(plan);
  experiment.capacities.resize(static_cast<std::size_t>(experiment.blocks()) -
                               1);
  return experiment;
}

}  // namespace

std::vector<Rehearsal> rehearse(const Experiment& given,
                                const RehearsalOptions& options) {
  Experiment experiment = in_whole_batches(of_one_replica(given));
  experiment.initial_weights.clear();
  const Turns turns = turns_of(experiment.plans.front(), options);
  const auto order = timeline_at(experiment, {}, turns.beside);
  std::vector<Rehearsal> rehearsals;
  std::vector<Performer> performers;
  std::optional<Message> from_below;
  std::vector<std::optional<Message>> inputs;
  Costs costs = experiment.costs;
  costs.blocks.clear();
  for (int block = 1; block <= experiment.blocks(); ++block) {
    inputs.push_back(from_below);
    Performer performer = performer_of(experiment, block, order, from_below);
    rehearsals.push_back(
        {.seconds = act_alone(*performer.block, performer.actions, turns)});
    costs.blocks.push_back(rehearsals.back().seconds);
    from_below = performer.block->sent_up();
    if (options.beside > 1) {
      performers.push_back(std::move(performer));
      continue;
    }
    performer.block->finish();
    rehearsals.back().memory = memory_of(*performer.block, given);
  }
  if (options.beside > 1) {
    // Other replicas compute at the same time, too.
    const auto seats = static_cast<std::size_t>(given.seats());
    while (performers.size() <
           std::min<std::size_t>(seats,
                                 static_cast<std::size_t>(options.beside))) {
      const std::size_t k =
          performers.size() % static_cast<std::size_t>(experiment.blocks());
      performers.push_back(
          performer_of(experiment, static_cast<int>(k) + 1, order, inputs[k]));
      act_alone(*performers.back().block, performers.back().actions, turns);
    }
    const auto beside = act_contended(
        performers, {.at_once = static_cast<std::size_t>(options.beside),
                     .turns = turns.end - turns.warm,
                     .threads = experiment.threads});
    for (std::size_t k = 0; k < rehearsals.size(); ++k) {
      rehearsals[k].beside = beside[k];
      performers[k].block->finish();
      rehearsals[k].memory = memory_of(*performers[k].block, given);
    }
  }
  if (experiment.blocks() > 1)
    add_queues(experiment, timeline_at(experiment, costs, turns.end),
               rehearsals);
  return rehearsals;
}

}  // namespace sluice
