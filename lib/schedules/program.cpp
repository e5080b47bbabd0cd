#include "lib/schedules/program.h"

#include "lib/schedules/op_table.h"

namespace sluice {

std::int64_t end_of_turns(const BlockPlan& plan, const Grant& grant) {
  return grant.end_turn + (grant.drain ? turns_in_flight(plan) : 0);
}

BlockProgram turns_of(const BlockPlan& plan, const Grant& grant) {
  const bool backward_first =
      plan.order == Order::backward_first && plan.delay > 0;
  BlockProgram program;
  for (std::int64_t turn = grant.first_turn; turn < end_of_turns(plan, grant);
       ++turn) {
    const Action forward{Op::forward, turn, turn, grant.phase};
    const Action backward{Op::backward, turn - plan.delay, turn, grant.phase};
    const bool has_forward = turn < grant.end_turn;
    const bool has_backward =
        backward.batch >= grant.first_batch && backward.batch < grant.end_turn;
    if (has_forward && !backward_first) program.push_back(forward);
    if (has_backward) program.push_back(backward);
    if (has_forward && backward_first) program.push_back(forward);
  }
  return program;
}

namespace {

void append_with_followers(const BlockPlan& plan, const Grant& grant,
                           const Action& action, BlockProgram& program) {
  program.push_back(action);
  for (const OpRow& row : op_rows()) {
    if (row.follows != action.op) continue;
    if (row.is_due != nullptr && !row.is_due(plan, grant, action)) continue;
    Action follower = action;
    follower.op = row.op;
    append_with_followers(plan, grant, follower, program);
  }
}

}  // namespace

BlockProgram with_followers(const BlockPlan& plan, const Grant& grant,
                            const BlockProgram& program) {
  BlockProgram all;
  for (const Action& action : program)
    append_with_followers(plan, grant, action, all);
  return all;
}

BlockProgram with_lessons(const BlockPlan& plan, const Grant& grant,
                          const BlockProgram& program) {
  BlockProgram all;
  auto next = program.begin();
  for (std::int64_t turn = grant.first_turn; turn < end_of_turns(plan, grant);
       ++turn) {
    for (; next != program.end() && next->turn == turn; ++next)
      all.push_back(*next);
    if (plan.unlocked && turn < grant.end_turn)
      all.push_back({Op::learn_input, turn, turn, grant.phase});
    const std::int64_t lesson = turn - plan.learn_delay;
    if (plan.learns && lesson >= grant.first_batch)
      all.push_back({Op::learn, lesson, turn, grant.phase});
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

BlockProgram with_evaluation(const Grant& grant, BlockProgram program) {
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
