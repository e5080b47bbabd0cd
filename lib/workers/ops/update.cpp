#include <cstddef>
#include <utility>

#include <ATen/ATen.h>

#include "lib/updates/clipping.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/ops/parts_of_ops.h"

namespace sluice::ops {
namespace {

/// Replicas, or batches of a turn, whose gradients the update applies the mean
/// of. A replica's share of the turn's batches counts too, where it has
/// several.
std::int64_t parts_of_mean(const SeatCore& seat, const UpdateInfo& info) {
  const BlockPlan& plan = seat.plan();
  if (plan.micro_batches.dealt > 1) return plan.micro_batches.dealt;
  if (seat.replicas.what() == ExchangedTensors::gradients &&
      plan.exchange.graph.is_all())
    return seat.replicas.members();
  return info.replicas;
}

/// Norm for the record of an update: of the means that it applies, before
/// clipping. Undefined where there is none, or gradient_norms is off.
at::Tensor recorded_norm(const SeatCore& seat, const Action& action,
                         const UpdateInfo& info) {
  const bool is_known = seat.replicas.steps().empty() &&
                        !seat.replicas.pushes_gradients() &&
                        !seat.plan().exchange.shards && !seat.clips_own();
  const SeatOptions& options = seat.settings.options;
  if (!options.gradient_norms || !seat.is_logged(action) || !is_known)
    return {};
  const auto divisor = static_cast<double>(
      (options.accumulate_mean ? info.turns : 1) * info.replicas);
  return squared_norm(seat.window.gradients).sqrt() / divisor;
}

void hash(SeatCore& seat, const Action& action) {
  NamedTensors gradients;
  for (std::size_t i = 0; i < seat.window.gradients.size(); ++i)
    gradients.emplace_back(seat.trained.tensors()[i].first,
                           seat.window.gradients[i]);
  seat.log.hashed(action, gradients, seat.trained.weights());
}

}  // namespace

void update(SeatCore& seat, const Action& action) {
  UpdateInfo info = seat.info_of(action);
  info.replicas = parts_of_mean(seat, info);
  if (seat.run_plan().model_norm && !seat.clips_own())
    info.model_norm = exchange_norm(seat, action);
  const at::Tensor norm = recorded_norm(seat, action, info);
  SeatProgress& progress = seat.progress;
  seat.view->before_update(progress.version);
  const AppliedUpdate applied = seat.replicas.apply(seat.window.gradients, info,
                                                    seat.view->next_weights());
  if (applied.late_by)
    seat.late.report(action, seat.window.in_updates.most, *applied.late_by,
                     seat.window.batches);
  progress.version = applied.clock.value_or(progress.version + 1);
  progress.last_rate = applied.rate;
  seat.window.clear();
  seat.log.went_on();
  if (seat.is_logged(action))
    seat.log.updated(action, progress.last_rate, norm);
  if (!seat.replicas.gathers()) take_weights(seat, action);
}

void take_weights(SeatCore& seat, const Action& action) {
  seat.view->after_update();
  seat.evaluated.follow(action.turn);
  if (seat.settings.options.hashes) hash(seat, action);
}

}  // namespace sluice::ops
