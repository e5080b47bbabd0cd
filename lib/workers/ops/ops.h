#pragma once

#include "lib/schedules/plan/action.h"
#include "lib/workers/seat_core.h"

namespace sluice {

/// What ops do, in sources of this folder.
namespace ops {

void forward(SeatCore& seat, const Action& action);
void evaluate(SeatCore& seat, const Action& action);
void save(SeatCore& seat, const Action& action);

void backward(SeatCore& seat, const Action& action);
void backward_input(SeatCore& seat, const Action& action);
void backward_weights(SeatCore& seat, const Action& action);
/// A visit that takes back the parts of the gradient that go its way.
void visit(SeatCore& seat, const Action& action);
/// A visit in which the auxiliary variables of a batch move, or which says
/// where to.
void sweep(SeatCore& seat, const Action& action);

void update(SeatCore& seat, const Action& action);
void learn(SeatCore& seat, const Action& action);
void learn_input(SeatCore& seat, const Action& action);
void exchange(SeatCore& seat, const Action& action);
void settle(SeatCore& seat, const Action& action);

}  // namespace ops
}  // namespace sluice
