#include "lib/schedules/plan/op_table.h"

#include <array>

#include "lib/base/by_block.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/program.h"

namespace sluice {
namespace {

using Transfers = std::vector<Transfer>;

const BlockPlan& plan_of(const RunPlan& plan, int seat) {
  return by_block(plan.blocks, seat);
}

Transfers from_below(MessageKind kind, const RunPlan& plan, int seat,
                     const Action& action) {
  if (plan_of(plan, seat).block == 1) return {};
  return {{kind,
           neighbour_with(plan, seat, Direction::below, kind, action.batch),
           seat, action.batch, batch_round(action).round}};
}

Transfers to_above(MessageKind kind, const RunPlan& plan, int seat,
                   const Action& action) {
  if (plan_of(plan, seat).block == plan.depth()) return {};
  return {{kind, seat,
           neighbour_with(plan, seat, Direction::above, kind, action.batch),
           action.batch, batch_round(action).round}};
}

std::vector<LeftMark> left_by_forward(const BlockPlan& plan,
                                      const Action& action) {
  const BatchRound visit = batch_round(action);
  if (plan.forwards_data())
    return {{Mark::in_flight, visit}, {Mark::predicted, visit}};
  return {{Mark::in_flight, visit}};
}

Transfers into_forward(const RunPlan& plan, int seat, const Action& action) {
  const BlockPlan& mine = plan_of(plan, seat);
  // Data wait for no block, and a buffer gives what it has.
  if (mine.forwards_data() || mine.free.inbox_below.buffer) return {};
  return from_below(MessageKind::activation, plan, seat, action);
}

Transfers out_of_forward(const RunPlan& plan, int seat, const Action& action) {
  return to_above(MessageKind::activation, plan, seat, action);
}

std::vector<LeftMark> left_by_backward(const BlockPlan& plan,
                                       const Action& action) {
  const std::int64_t batch = action.batch;
  if (!is_last_visit(plan, action))
    return {{Mark::in_flight, {batch, action.round + 1}}};
  // The mark is of the batch, whatever its visits.
  if (plan.lower.learns)
    return {{Mark::summed, {batch, 0}}, {Mark::lesson, {batch, 0}}};
  return {{Mark::summed, {batch, 0}}};
}

std::vector<LeftMark> left_by_backward_input(const BlockPlan& /*plan*/,
                                             const Action& action) {
  return {{Mark::halved, batch_round(action)}};
}

const BackwardVisit& visit_of(const BlockPlan& plan, const Action& action) {
  return plan.visits.at(static_cast<std::size_t>(action.round));
}

int above_with(const RunPlan& plan, int seat, const Action& action) {
  return neighbour_with(plan, seat, Direction::above, MessageKind::gradient,
                        action.batch);
}

int below_with(const RunPlan& plan, int seat, const Action& action) {
  return neighbour_with(plan, seat, Direction::below, MessageKind::gradient,
                        action.batch);
}

Transfers gradient_from_above(const RunPlan& plan, int seat,
                              const Action& action) {
  return {{MessageKind::gradient, above_with(plan, seat, action), seat,
           action.batch, action.round}};
}

Transfers into_backward(const RunPlan& plan, int seat, const Action& action) {
  const BlockPlan& mine = plan_of(plan, seat);
  if (mine.visits.empty())
    return mine.gradients.from_above ? gradient_from_above(plan, seat, action)
                                     : Transfers();
  Transfers all;
  for (const Arrival& arrival : visit_of(mine, action).arrivals)
    all.push_back({MessageKind::gradient, above_with(plan, seat, action), seat,
                   action.batch, arrival.round});
  if (visit_of(mine, action).takes_input)
    all.push_back({MessageKind::activation, below_with(plan, seat, action),
                   seat, action.batch, action.round});
  return all;
}

Transfers out_of_backward(const RunPlan& plan, int seat, const Action& action) {
  const BlockPlan& mine = plan_of(plan, seat);
  const bool is_sent =
      mine.visits.empty()
          ? mine.gradient_to_below() || mine.answers()
          : visit_of(mine, action).leaving != GradientPart::kStays;
  Transfers all;
  if (is_sent)
    all.push_back({MessageKind::gradient, seat, below_with(plan, seat, action),
                   action.batch, action.round});
  if (!mine.visits.empty() && visit_of(mine, action).publishes)
    all.push_back({MessageKind::activation, seat,
                   above_with(plan, seat, action), action.batch,
                   action.round + 1});
  return all;
}

std::vector<LeftMark> left_by_exchange(const BlockPlan& /*plan*/,
                                       const Action& action) {
  return {{Mark::published, batch_round(action)}};
}

/// Marks that a settle leaves: what the centre has taken is to be merged, too.
std::vector<LeftMark> left_by_settle(const BlockPlan& plan,
                                     const Action& action) {
  if (!plan.exchange.quorum.is_there() || action.kind != ExchangeKind::push)
    return {};
  return {{Mark::published, {action.batch, row_of(ExchangeKind::pull).number}}};
}

/// Whether the update comes next: after the backward that fills the window, or
/// after the exchange between them.
bool is_updated(const BlockPlan& plan, const Grant& grant,
                const Action& before) {
  const bool is_full = before.op == Op::settle
                           ? plan.exchange.what != ExchangedTensors::weights &&
                                 (is_of_window(before.kind) ||
                                  before.kind == ExchangeKind::second)
                           : fills_window(plan, grant, before);
  return is_full && !exchange_after(plan, grant, before);
}

/// Whether the block clips by the norm of the whole model then, which goes up
/// from block to block.
bool clips_model(const RunPlan& plan, int seat, const Action& action) {
  if (!plan.model_norm) return false;
  if (!plan_of(plan, seat).exchange.clips_own) return action.op == Op::update;
  return action.op == Op::exchange && is_of_window(action.kind);
}

Transfers into_clip(const RunPlan& plan, int seat, const Action& action) {
  if (!clips_model(plan, seat, action)) return {};
  return from_below(MessageKind::norm, plan, seat, action);
}

Transfers out_of_clip(const RunPlan& plan, int seat, const Action& action) {
  if (!clips_model(plan, seat, action)) return {};
  return to_above(MessageKind::norm, plan, seat, action);
}

bool adds_to_norm(const RunPlan& plan, int seat, const Action& settle) {
  return is_norm_of_exchanged(plan, seat) &&
         gives_gradients(plan_of(plan, seat), settle);
}

/// Messages that a settle takes; what it is made of has gone down before.
Transfers into_settle(const RunPlan& plan, int seat, const Action& action) {
  if (!adds_to_norm(plan, seat, action) ||
      plan_of(plan, seat).block == plan.depth())
    return {};
  return {{MessageKind::norm, seat + 1, seat, action.batch,
           batch_round(action).round}};
}

Transfers out_of_settle(const RunPlan& plan, int seat, const Action& action) {
  if (!adds_to_norm(plan, seat, action) || plan_of(plan, seat).block == 1)
    return {};
  return {{MessageKind::norm, seat, seat - 1, action.batch,
           batch_round(action).round}};
}

Transfers into_evaluate(const RunPlan& plan, int seat, const Action& action) {
  return from_below(MessageKind::evaluation, plan, seat, action);
}

Transfers out_of_evaluate(const RunPlan& plan, int seat, const Action& action) {
  return to_above(MessageKind::evaluation, plan, seat, action);
}

/// Messages that a lesson takes; where backward waits for the same gradient,
/// backward has taken it.
Transfers into_learn(const RunPlan& plan, int seat, const Action& action) {
  if (plan_of(plan, seat).gradients.from_above) return {};
  return gradient_from_above(plan, seat, action);
}

Transfers into_learn_input(const RunPlan& plan, int seat,
                           const Action& action) {
  return from_below(MessageKind::activation, plan, seat, action);
}

}  // namespace

std::span<const OpRow> op_rows() {
  static const std::array<OpRow, kOps> rows = {
      OpRow{.op = Op::forward,
            .letter = 'F',
            .name = "forward",
            .doing = "forward",
            .leaves = left_by_forward,
            .in = into_forward,
            .out = out_of_forward,
            .costs_as = Op::forward,
            .cost_text = "time of a forward of a batch: one number for all "
                         "blocks, or one for each"},
      OpRow{.op = Op::backward,
            .letter = 'B',
            .name = "backward",
            .doing = "backward",
            .takes = Mark::in_flight,
            .leaves = left_by_backward,
            .in = into_backward,
            .out = out_of_backward,
            .costs_as = Op::backward,
            .cost_text = "time of a backward, without the update"},
      OpRow{.op = Op::update,
            .letter = 'U',
            .name = "update",
            .doing = "update",
            .takes = Mark::summed,
            .takes_all = true,
            .in = into_clip,
            .out = out_of_clip,
            .follows = {Op::backward, Op::backward_weights, Op::settle},
            .is_due = is_updated,
            .costs_as = Op::update,
            .cost_text = "time of an update"},
      OpRow{.op = Op::evaluate,
            .letter = 'E',
            .name = "evaluate",
            .doing = "evaluation",
            .is_training = false,
            .in = into_evaluate,
            .out = out_of_evaluate,
            .costs_as = Op::forward},
      OpRow{.op = Op::learn,
            .letter = 'L',
            .name = "learn",
            .doing = "learning",
            .takes = Mark::lesson,
            .in = into_learn,
            .costs_as = Op::learn,
            .cost_text = "time in which a synthesizer learns from a batch"},
      OpRow{.op = Op::save,
            .letter = 'C',
            .name = "checkpoint",
            .doing = "checkpoint",
            .is_training = false,
            .costs_as = Op::save},
      OpRow{.op = Op::learn_input,
            .letter = 'I',
            .name = "learn input",
            .doing = "learning of its input",
            .takes = Mark::predicted,
            .in = into_learn_input,
            .costs_as = Op::learn_input,
            .cost_text = "time in which the input model of an unlock learns "
                         "from a batch"},
      OpRow{.op = Op::backward_input,
            .letter = 'D',
            .name = "backward input",
            .doing = "backward",
            .takes = Mark::in_flight,
            .leaves = left_by_backward_input,
            .in = into_backward,
            .out = out_of_backward,
            .costs_as = Op::backward,
            .cost_share = 0.5,
            .cost_text = "time of the first half of a split backward, which "
                         "sends the gradient down; 0: half of `backward`"},
      OpRow{.op = Op::backward_weights,
            .letter = 'W',
            .name = "backward weights",
            .doing = "backward",
            .takes = Mark::halved,
            .leaves = left_by_backward,
            .costs_as = Op::backward,
            .cost_share = 0.5,
            .cost_text = "time of its second half, the gradients of the "
                         "weights"},
      OpRow{.op = Op::exchange,
            .letter = 'X',
            .name = "exchange",
            .doing = "exchange with its replicas",
            .leaves = left_by_exchange,
            .in = into_clip,
            .out = out_of_clip,
            .costs_as = Op::exchange,
            .cost_text = "time in which a block hands over what its replicas "
                         "sum"},
      OpRow{.op = Op::settle,
            .letter = 'S',
            .name = "settle",
            .doing = "exchange with its replicas",
            .takes = Mark::published,
            .leaves = left_by_settle,
            .in = into_settle,
            .out = out_of_settle,
            .follows = {Op::exchange},
            .costs_as = Op::settle,
            .cost_text = "time in which a block sums what its replicas have "
                         "handed over"},
  };
  return rows;
}

const OpRow& row_of(Op op) {
  return op_rows()[static_cast<std::size_t>(op)];
}

std::string_view name_of(Op op) {
  return row_of(op).name;
}

}  // namespace sluice
