#include "lib/workers/seat_core.h"

#include <utility>

#include "lib/base/error.h"
#include "lib/schedules/plan/sample_weights.h"
#include "lib/workers/graphed_lower.h"

namespace sluice {
namespace {

/// The share of each parameter that a replica steps.
Share share_of_replica(const BlockPlan& plan) {
  if (!plan.exchange.shards) return {};
  return {plan.replica, plan.exchange.members};
}

AverageRule average_rule(const SeatSettings& settings) {
  const OptimizerOptions& options = settings.optimizer;
  return options.average > 0 ? AverageRule{.decay = options.average}
                             : tail_of(options.tail_average, settings.turns);
}

}  // namespace

SeatCore::SeatCore(int seat, SeatSettings all_settings, SeatParts parts)
    : settings(std::move(all_settings)),
      place(settings.plans, seat),
      block(std::move(parts.block)),
      trained(block,
              {.optimizer = settings.optimizer,
               .mean = settings.options.accumulate_mean,
               .clipped = clips_own(),
               .graphs = settings.options.graphs,
               .share = share_of_replica(plan())},
              settings.options.graphs ? graphed_lowers(parts.lowers, block)
                                      : parts.lowers,
              parts.uppers),
      replicas(block, trained, settings.replicas, std::move(parts.replicas),
               settings.options.seed),
      evaluated(block, trained),
      evaluations(settings),
      clock(device()),
      timeline(seat, parts.sink, settings.options.traced),
      ports(run_plan(), seat, std::move(parts.below), std::move(parts.above),
            clock, timeline, settings.patience),
      log(plan(), parts.sink, settings.epochs, settings.late_updates),
      norm(place, replicas, window, device()),
      messages({.place = place,
                .settings = settings,
                .progress = progress,
                .block = block,
                .ports = ports,
                .log = log,
                .norm = norm},
               parts),
      late(place, settings.options.max_staleness, log),
      watched(block, plan().replica, std::move(parts.observer)) {
  SLUICE_CHECK(parts.lowers.size() == settings.plans.size(),
               "{} lower ends for {} phases", parts.lowers.size(),
               settings.plans.size());
  if (settings.options.graphs) block.use_graphs();
  block.checkpoint_every(settings.options.checkpoint_layers);
  if (settings.optimizer.averages() && plan().replica == 1)
    evaluated.average_by(average_rule(settings));
  enter(0, 0);
}

void SeatCore::enter(std::int64_t phase, std::int64_t turn) {
  if (view && phase == place.phase()) return;
  SLUICE_CHECK(held.empty(), "block {}: phase {} begins with batches in flight",
               block.index(), phase);
  place.enter(phase);
  progress.first_batch = turn;
  messages.forget_sent();
  window = {};
  late.forget_kept();
  ledger = {};
  view = make_weight_view(
      plan(),
      {.block = block,
       .update = trained.update(),
       .statistics =
           plan().weights.statistics.value_or(StatisticsPass::forward),
       .saved = !settings.checkpoint_folder.empty() ||
                settings.optimizer.wants_forward_weights,
       .look_ahead =
           settings.optimizer.look_ahead ? settings.optimizer.momentum : 0});
}

Pass SeatCore::pass_for(std::int64_t batch, bool training) const {
  return {.seed = settings.options.seed,
          .batch = training ? plan().micro_batches.source_batch(batch) : batch,
          .training = training,
          .masks = settings.options.masks};
}

bool SeatCore::clips_own() const {
  return sluice::clips_own(settings.optimizer, plan().exchange.what);
}

double SeatCore::rate_of(const UpdateChain& update, std::int64_t turn) const {
  return update.rate_at(turn, settings.turns, settings.epochs);
}

double SeatCore::share_of(const Action& action) const {
  return plan().micro_batches.share_of(action.batch);
}

double SeatCore::weight_of(const Action& action) const {
  const ReplicaExchange& exchange = plan().exchange;
  const bool sums_gradients = exchange.members > 1 &&
                              exchange.what == ExchangedTensors::gradients &&
                              exchange.graph.is_all() && !exchange.served;
  const MicroBatches& cut = plan().micro_batches;
  return sums_gradients || cut.dealt > 1 ? weight_in_turn(cut, action.batch)
                                         : 1;
}

UpdateInfo SeatCore::info_of(const Action& action) const {
  UpdateInfo info = window.info();
  info.turn = action.turn;
  info.rate = rate_of(trained.update(), action.turn);
  return info;
}

bool SeatCore::is_logged(const Action& action) const {
  return action.turn % settings.options.log_every < plan().accumulate;
}

void SeatCore::note_memory() {
  MemoryUse now = held.memory(*view, 0);
  now.history += ends().upper->kept_bytes() + messages.bytes();
  now.queue = ports.waiting_bytes();
  memory_use.raise_to(now);
}

void SeatCore::show_average() {
  evaluated.show_average(/*with_buffers=*/!plan().exchange.agrees);
}

}  // namespace sluice
