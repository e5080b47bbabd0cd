#include "lib/workers/ops/ops.h"

#include "lib/base/error.h"

namespace sluice {
namespace {

SeatOp backward_of(const BlockPlan& plan) {
  if (plan.sweeps) return ops::sweep;
  return plan.rounds() > 1 ? ops::visit : ops::backward;
}

}  // namespace

SeatOp op_of(const BlockPlan& plan, Op op) {
  static const OpValues<SeatOp> others = {
      {Op::forward, ops::forward},
      {Op::update, ops::update},
      {Op::learn, ops::learn},
      {Op::evaluate, ops::evaluate},
      {Op::save, ops::save},
      {Op::learn_input, ops::learn_input},
      {Op::backward_input, ops::backward_input},
      {Op::backward_weights, ops::backward_weights},
      {Op::exchange, ops::exchange},
      {Op::settle, ops::settle}};
  const SeatOp found = op == Op::backward ? backward_of(plan) : others[op];
  SLUICE_CHECK(found != nullptr, "op {} has no row", static_cast<int>(op));
  return found;
}

}  // namespace sluice
