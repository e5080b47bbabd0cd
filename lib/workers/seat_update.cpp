// How what a seat owns learns: its weights, and the ends of its boundaries.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/messages/message.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/pack.h"
#include "lib/workers/payloads.h"
#include "lib/workers/seat.h"
#include "lib/workers/vjp.h"

namespace sluice {

void Seat::learn_input(const Action& action) {
  const Payload from_below =
      unpack_up(ports_.from_below(MessageKind::activation, action), plan(),
                coded_below_.activation(slot_of(action)), device());
  Lesson lesson = ends().upper->learn(input_context(action), from_below);
  take_lesson(trained_.learners(ends().upper_learners),
              std::move(lesson.gradients), action);
  log_lesson(action, lesson);
}

void Seat::log_lesson(const Action& action, const Lesson& lesson) {
  if (action.turn % settings_.options.log_every == 0)
    log_.learned(action, lesson.loss_name, lesson.loss);
}

UpdateInfo Seat::info_of(const Action& action) const {
  UpdateInfo info = window_.info();
  info.turn = action.turn;
  info.rate = rate_of(trained_.update(), action.turn);
  return info;
}

void Seat::update(const Action& action) {
  UpdateInfo info = info_of(action);
  // A replica's share of the turn's batches counts too, where it has several.
  if (plan().micro_batches.dealt > 1)
    info.replicas = plan().micro_batches.dealt;
  else if (replicas_.what() == ExchangedTensors::gradients &&
           plan().exchange.graph.is_all())
    info.replicas = replicas_.members();
  if (run_plan().model_norm && !clips_own())
    info.model_norm = exchange_norm(action);
  const at::Tensor norm = told_norm(action, info);
  view_->before_update(version_);
  const AppliedUpdate applied =
      replicas_.apply(window_.gradients, info, view_->next_weights());
  if (applied.late_by)
    tell_late(action, window_.in_updates.most, *applied.late_by,
              window_.batches);
  version_ = applied.clock.value_or(version_ + 1);
  last_rate_ = applied.rate;
  window_.clear();
  log_.went_on();
  if (is_logged(action)) log_.updated(action, last_rate_, norm);
  if (!replicas_.gathers()) take_weights(action);
}

/// Takes weights that have all been updated, by this replica or others.
void Seat::take_weights(const Action& action) {
  view_->after_update();
  if (average_) average_->follow(trained_.tensors(), action.turn);
  if (settings_.options.hashes) hash(action);
}

void Seat::hash(const Action& action) {
  NamedTensors gradients;
  for (std::size_t i = 0; i < window_.gradients.size(); ++i)
    gradients.emplace_back(trained_.tensors()[i].first, window_.gradients[i]);
  log_.hashed(action, gradients, weights());
}

void Seat::learn(const Action& action) {
  last_turn_ = action.turn;
  PendingLesson batch = held_.take_lesson(action.batch);
  if (!plan().gradients.from_above) {
    DownPayload arrived = receive_from_above(action);
    if (!arrived.gradients.empty())
      batch.from_above = std::move(arrived.gradients.front());
    batch.answer = std::move(arrived.answer);
  }
  const WriteCheck unchanged(
      {&batch.features, &batch.from_above, &batch.answer});
  Lesson lesson = ends().lower->learn({.turn = action.turn,
                                       .batch = action.batch,
                                       .features = batch.features,
                                       .labels = batch.labels,
                                       .from_above = batch.from_above,
                                       .pass = batch.pass,
                                       .attachments = batch.attachments,
                                       .answer = batch.answer,
                                       .share = share_of(action)});
  unchanged.check(fmt::format("the policy above block {}", block()));
  take_lesson(trained_.learners(ends().learners), std::move(lesson.gradients),
              action);
  log_lesson(action, lesson);
}

void Seat::step(Learners& learners, Tensors gradients, const Action& action) {
  SLUICE_CHECK(gradients.size() == learners.tensors.size(),
               "the policy gave {} gradients for {} tensors that learn",
               gradients.size(), learners.tensors.size());
  learners.update->apply(
      gradients, {.turn = action.turn,
                  .replicas = sums_lessons(plan()) ? replicas_.members() : 1,
                  .rate = rate_of(*learners.update, action.turn)});
}

/// Steps by a lesson, or keeps it for the replicas to sum.
void Seat::take_lesson(Learners& learners, Tensors gradients,
                       const Action& action) {
  if (sums_lessons(plan()))
    lesson_ = weighted(std::move(gradients), weight_of(action));
  else
    step(learners, std::move(gradients), action);
}

bool Seat::is_logged(const Action& action) const {
  return action.turn % settings_.options.log_every < plan().accumulate;
}

}  // namespace sluice
