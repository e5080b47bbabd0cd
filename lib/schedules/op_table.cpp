#include "lib/schedules/op_table.h"

#include <array>

#include "lib/base/by_block.h"

namespace sluice {
namespace {

using Transfers = std::vector<Transfer>;

const BlockPlan& plan_of(const RunPlan& plan, int block) {
  return by_block(plan.blocks, block);
}

bool is_last(const RunPlan& plan, int block) {
  return block == std::ssize(plan.blocks);
}

Transfers from_below(MessageKind kind, int block, const Action& action) {
  if (block == 1) return {};
  return {{kind, block - 1, block, action.batch, action.round}};
}

Transfers to_above(MessageKind kind, const RunPlan& plan, int block,
                   const Action& action) {
  if (is_last(plan, block)) return {};
  return {{kind, block, block + 1, action.batch, action.round}};
}

std::vector<Mark> left_by_forward(const BlockPlan& plan) {
  if (plan.forwards_data()) return {Mark::in_flight, Mark::predicted};
  return {Mark::in_flight};
}

Transfers into_forward(const RunPlan& plan, int block, const Action& action) {
  const BlockPlan& mine = plan_of(plan, block);
  // Data wait for no block, and a buffer gives what it has.
  if (mine.forwards_data() || mine.inbox_below.buffer) return {};
  return from_below(MessageKind::activation, block, action);
}

Transfers out_of_forward(const RunPlan& plan, int block, const Action& action) {
  return to_above(MessageKind::activation, plan, block, action);
}

std::vector<Mark> left_by_backward(const BlockPlan& plan) {
  if (plan.learns) return {Mark::summed, Mark::lesson};
  return {Mark::summed};
}

std::vector<Mark> left_by_backward_input(const BlockPlan& /*plan*/) {
  return {Mark::halved};
}

Transfers gradient_from_above(int block, const Action& action) {
  return {
      {MessageKind::gradient, block + 1, block, action.batch, action.round}};
}

Transfers into_backward(const RunPlan& plan, int block, const Action& action) {
  if (!plan_of(plan, block).gradient_from_above) return {};
  return gradient_from_above(block, action);
}

Transfers out_of_backward(const RunPlan& plan, int block,
                          const Action& action) {
  const BlockPlan& mine = plan_of(plan, block);
  if (!mine.gradient_to_below() && !mine.answers()) return {};
  return {
      {MessageKind::gradient, block, block - 1, action.batch, action.round}};
}

bool fills_window(const BlockPlan& plan, const Grant& grant,
                  const Action& backward) {
  const std::int64_t turn = plan.micro_batches.turn_of(backward.batch);
  return plan.micro_batches.ends_turn(backward.batch) &&
         (turn - grant.first_batch + 1) % plan.accumulate == 0;
}

// The norm of the whole model goes up, from block to block.
Transfers into_update(const RunPlan& plan, int block, const Action& action) {
  if (!plan.model_norm) return {};
  return from_below(MessageKind::norm, block, action);
}

Transfers out_of_update(const RunPlan& plan, int block, const Action& action) {
  if (!plan.model_norm) return {};
  return to_above(MessageKind::norm, plan, block, action);
}

Transfers into_evaluate(const RunPlan& /*plan*/, int block,
                        const Action& action) {
  return from_below(MessageKind::evaluation, block, action);
}

Transfers out_of_evaluate(const RunPlan& plan, int block,
                          const Action& action) {
  return to_above(MessageKind::evaluation, plan, block, action);
}

/// Where backward waits for the same gradient, it has taken it.
Transfers into_learn(const RunPlan& plan, int block, const Action& action) {
  if (plan_of(plan, block).gradient_from_above) return {};
  return gradient_from_above(block, action);
}

Transfers into_learn_input(const RunPlan& /*plan*/, int block,
                           const Action& action) {
  return from_below(MessageKind::activation, block, action);
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
            .in = into_update,
            .out = out_of_update,
            .follows = {Op::backward, Op::backward_weights},
            .is_due = fills_window,
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
