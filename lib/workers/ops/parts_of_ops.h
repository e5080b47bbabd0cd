#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/boundaries/boundary.h"
#include "lib/schedules/plan/action.h"
#include "lib/workers/in_flight.h"
#include "lib/workers/payloads.h"
#include "lib/workers/seat_core.h"

// What several ops of a seat have in common.

namespace sluice::ops {

/// What the upper end below the block is given for a batch.
InputContext input_context(SeatCore& seat, const Action& action);

/// A batch whose backward begins, with its graph. `returned`: the block's
/// output of it, where it came back.
PendingBackward opened(SeatCore& seat, const Action& action,
                       Tensors returned = {});
/// The lower end's answer about a batch that is opened, with what comes from
/// above; `visit`: which one of several asks. Throws InternalError where the
/// end writes into what it is given.
Signal signal_for(SeatCore& seat, const Action& action,
                  const PendingBackward& asked, const Tensors& from_above,
                  const Visit& visit = {});
/// Adds the gradients of a batch to the window of the next update.
void apply(SeatCore& seat, const Action& action, const PendingBackward& asked,
           const Tensors& parameters);
DownPayload down_of(SeatCore& seat, std::vector<Tensors> gradients,
                    const Tensors& inputs);

/// Takes weights that have all been updated, by this replica or others.
void take_weights(SeatCore& seat, const Action& action);

/// Gives the learners of an end a lesson: steps, or keeps it for the replicas
/// to sum.
void take_lesson(SeatCore& seat, Learners& learners, Lesson lesson,
                 const Action& action);
/// Steps by the gradients of a lesson.
void step(SeatCore& seat, Learners& learners, Tensors gradients,
          const Action& action);

/// The norm of the whole model, of which the sum has come down: block 1 ends
/// it, and it goes up.
at::Tensor exchange_norm(SeatCore& seat, const Action& action);

}  // namespace sluice::ops
