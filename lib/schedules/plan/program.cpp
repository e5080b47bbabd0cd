#include "lib/schedules/plan/program.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {

std::int64_t end_of_turns(const BlockPlan& plan, const Grant& grant) {
  return grant.end_turn + (grant.drain ? turns_in_flight(plan) : 0);
}

BlockProgram turns_of(const BlockPlan& plan, const Grant& grant) {
  const bool backward_first =
      plan.order == Order::backward_first && plan.delay > 0;
  BlockProgram program;
  const MicroBatches& cut = plan.micro_batches;
  // Replicas above work at the turn's batches at the same time; and with
  // backwards first, all of them come before the update.
  const bool separates = cut.dealt > 1 && plan.gradients.from_above;
  for (std::int64_t turn = grant.first_turn; turn < end_of_turns(plan, grant);
       ++turn) {
    BlockProgram last;
    const std::int64_t applied = turn - plan.delay;
    const bool has_forward = turn < grant.end_turn;
    const bool has_backward =
        applied >= grant.first_batch && applied < grant.end_turn;
    for (std::int64_t i = 0; i < cut.batches_in(turn); ++i) {
      const Action forward{Op::forward, cut.batch_of(turn, i), turn,
                           grant.phase};
      const Action backward{Op::backward, cut.batch_of(applied, i), turn,
                            grant.phase};
      BlockProgram& second = separates ? last : program;
      if (has_forward && !backward_first) program.push_back(forward);
      if (has_backward) (backward_first ? program : second).push_back(backward);
      if (has_forward && backward_first) second.push_back(forward);
    }
    program.insert(program.end(), last.begin(), last.end());
  }
  return program;
}

BlockProgram with_split_backwards(BlockProgram program) {
  BlockProgram all;
  for (Action& action : program) {
    const bool is_split = action.op == Op::backward;
    if (is_split) action.op = Op::backward_input;
    all.push_back(action);
    if (!is_split) continue;
    action.op = Op::backward_weights;
    all.push_back(std::move(action));
  }
  return all;
}

namespace {

/// The visits that are due with the turn's backward of that index, from 0.
void append_visits(const BlockPlan& plan, const BlockProgram& backwards,
                   std::int64_t index, BlockProgram& program) {
  for (std::int64_t round = 0; round < plan.rounds(); ++round) {
    const std::int64_t of =
        index - plan.visits[static_cast<std::size_t>(round)].lag;
    if (of < 0 || of >= std::ssize(backwards)) continue;
    program.push_back(backwards[static_cast<std::size_t>(of)]);
    program.back().round = round;
  }
}

std::int64_t longest_lag(const BlockPlan& plan) {
  std::int64_t longest = 0;
  for (const BackwardVisit& visit : plan.visits)
    longest = std::max(longest, visit.lag);
  return longest;
}

}  // namespace

BlockProgram with_visits(const BlockPlan& plan, const BlockProgram& program) {
  if (plan.visits.empty()) return program;
  BlockProgram all;
  BlockProgram backwards;  // of the turn
  for (const Action& action : program) {
    if (action.op != Op::backward) {
      all.push_back(action);
      continue;
    }
    backwards.push_back(action);
    std::int64_t index = std::ssize(backwards) - 1;
    append_visits(plan, backwards, index, all);
    if (!plan.micro_batches.ends_turn(action.batch)) continue;
    while (++index < std::ssize(backwards) + longest_lag(plan))
      append_visits(plan, backwards, index, all);
    backwards.clear();
  }
  return all;
}

namespace {

void append_with_followers(const BlockPlan& plan, const Grant& grant,
                           const Action& action, BlockProgram& program) {
  program.push_back(action);
  const auto append = [&](Op op, ExchangeKind kind) {
    Action follower = action;
    follower.op = op;
    follower.kind = kind;
    follower.round = 0;
    append_with_followers(plan, grant, follower, program);
  };
  for (const OpRow& row : op_rows()) {
    if (std::find(row.follows.begin(), row.follows.end(), action.op) ==
        row.follows.end())
      continue;
    if (row.is_due == nullptr || row.is_due(plan, grant, action))
      append(row.op, is_exchange(row.op) ? action.kind : ExchangeKind::none);
  }
  if (const auto kind = exchange_after(plan, grant, action))
    append(Op::exchange, *kind);
}

}  // namespace

bool is_last_visit(const BlockPlan& plan, const Action& action) {
  return action.op != Op::backward || action.round + 1 == plan.rounds();
}

bool fills_window(const BlockPlan& plan, const Grant& grant,
                  const Action& backward) {
  const bool goes_back =
      backward.op == Op::backward || backward.op == Op::backward_weights;
  const std::int64_t turn = plan.micro_batches.turn_of(backward.batch);
  return goes_back && is_last_visit(plan, backward) &&
         plan.micro_batches.ends_turn(backward.batch) &&
         (turn - grant.first_batch + 1) % plan.accumulate == 0;
}

BlockProgram with_followers(const BlockPlan& plan, const Grant& grant,
                            const BlockProgram& program) {
  BlockProgram all;
  for (const Action& action : program)
    append_with_followers(plan, grant, action, all);
  return all;
}

BlockProgram with_overlap(const BlockPlan& plan, BlockProgram program) {
  const std::int64_t overlap = plan.exchange.overlap;
  if (overlap == 0) return program;
  BlockProgram all;
  std::optional<Action> put_off;
  std::int64_t updates = 0;  // since its exchange
  const auto settle_in = [&](std::int64_t turn) {
    put_off->turn = turn;
    all.push_back(*std::exchange(put_off, std::nullopt));
  };
  for (Action& action : program) {
    if (action.op == Op::settle && action.kind == ExchangeKind::weights) {
      put_off = std::move(action);
      updates = 0;
      continue;
    }
    if (put_off && action.op == Op::update && ++updates == overlap)
      settle_in(action.turn);
    all.push_back(std::move(action));
  }
  if (put_off) settle_in(all.back().turn);
  return all;
}

namespace {

void append_lesson(const BlockPlan& plan, const Action& lesson,
                   BlockProgram& program) {
  program.push_back(lesson);
  if (!sums_lessons(plan)) return;
  for (const Op op : {Op::exchange, Op::settle}) {
    program.push_back(lesson);
    program.back().op = op;
    program.back().kind = lesson.op == Op::learn ? ExchangeKind::lesson
                                                 : ExchangeKind::input_lesson;
  }
}

}  // namespace

BlockProgram with_lessons(const BlockPlan& plan, const Grant& grant,
                          const BlockProgram& program) {
  if (!plan.lower.learns && !plan.forwards_data()) return program;
  const MicroBatches& cut = plan.micro_batches;
  BlockProgram all;
  auto next = program.begin();
  for (std::int64_t turn = grant.first_turn; turn < end_of_turns(plan, grant);
       ++turn) {
    for (; next != program.end() && next->turn == turn; ++next)
      all.push_back(*next);
    const std::int64_t lesson = turn - plan.lower.learn_delay;
    for (std::int64_t i = 0; i < cut.batches_in(turn); ++i) {
      if (plan.forwards_data() && turn < grant.end_turn)
        append_lesson(
            plan, {Op::learn_input, cut.first_of(turn) + i, turn, grant.phase},
            all);
      if (plan.lower.learns && lesson >= grant.first_batch)
        append_lesson(plan,
                      {Op::learn, cut.first_of(lesson) + i, turn, grant.phase},
                      all);
    }
  }
  return all;
}

BlockProgram only_part(const BlockPlan& plan, TurnPart part,
                       BlockProgram program) {
  if (part != TurnPart::whole)
    std::erase_if(program, [&](const Action& action) {
      return part_of(plan, action) != part;
    });
  return program;
}

BlockProgram with_agreement(const BlockPlan& plan, const Grant& grant,
                            BlockProgram program) {
  const bool is_needed = grant.evaluation_batches > 0 || grant.checkpoint;
  if (!plan.exchange.agrees || !is_needed) return program;
  for (const Op op : {Op::exchange, Op::settle})
    program.push_back({.op = op,
                       .batch = grant.end_turn,
                       .turn = grant.end_turn,
                       .phase = grant.phase,
                       .kind = ExchangeKind::agreement});
  return program;
}

BlockProgram with_evaluation(const BlockPlan& plan, const Grant& grant,
                             BlockProgram program) {
  if (plan.replica > 1) return program;
  for (std::int64_t batch = 0; batch < grant.evaluation_batches; ++batch)
    program.push_back({Op::evaluate, batch, grant.end_turn, grant.phase});
  return program;
}

BlockProgram with_saving(const Grant& grant, BlockProgram program) {
  if (grant.checkpoint)
    program.push_back({Op::save, grant.end_turn, grant.end_turn, grant.phase});
  return program;
}

}  // namespace sluice
