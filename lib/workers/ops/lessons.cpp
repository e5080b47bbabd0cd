// How the ends of a block's boundaries learn.
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/pack.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/ops/parts_of_ops.h"
#include "lib/workers/trained/vjp.h"

namespace sluice::ops {

void learn(SeatCore& seat, const Action& action) {
  seat.progress.last_turn = action.turn;
  PendingLesson batch = seat.held.take_lesson(action.batch);
  if (!seat.plan().gradients.from_above) {
    DownPayload arrived = seat.messages.from_above(action);
    if (!arrived.gradients.empty())
      batch.from_above = std::move(arrived.gradients.front());
    batch.answer = std::move(arrived.answer);
  }
  const WriteCheck unchanged(
      {&batch.features, &batch.from_above, &batch.answer});
  Lesson lesson = seat.ends().lower->learn({.turn = action.turn,
                                            .batch = action.batch,
                                            .features = batch.features,
                                            .labels = batch.labels,
                                            .from_above = batch.from_above,
                                            .pass = batch.pass,
                                            .attachments = batch.attachments,
                                            .answer = batch.answer,
                                            .share = seat.share_of(action)});
  unchanged.check(fmt::format("the policy above block {}", seat.block.index()));
  take_lesson(seat, seat.trained.learners(seat.ends().learners),
              std::move(lesson), action);
}

void learn_input(SeatCore& seat, const Action& action) {
  const Payload from_below = seat.messages.lesson_input(action);
  take_lesson(seat, seat.trained.learners(seat.ends().upper_learners),
              seat.ends().upper->learn(input_context(seat, action), from_below),
              action);
}

void take_lesson(SeatCore& seat, Learners& learners, Lesson lesson,
                 const Action& action) {
  if (sums_lessons(seat.plan()))
    seat.lesson = weighted(std::move(lesson.gradients), seat.weight_of(action));
  else
    step(seat, learners, std::move(lesson.gradients), action);
  if (action.turn % seat.settings.options.log_every == 0)
    seat.log.learned(action, lesson.loss_name, lesson.loss);
}

void step(SeatCore& seat, Learners& learners, Tensors gradients,
          const Action& action) {
  SLUICE_CHECK(gradients.size() == learners.tensors.size(),
               "the policy gave {} gradients for {} tensors that learn",
               gradients.size(), learners.tensors.size());
  learners.update->apply(
      gradients,
      {.turn = action.turn,
       .replicas = sums_lessons(seat.plan()) ? seat.replicas.members() : 1,
       .rate = seat.rate_of(*learners.update, action.turn)});
}

}  // namespace sluice::ops
