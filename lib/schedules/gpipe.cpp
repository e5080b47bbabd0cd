// GPipe (Huang et al. 2019, arXiv:1811.06965): all batches of a turn go
// forward, then all backward. Changes no number.
#include "lib/base/error.h"
#include "lib/schedules/rows.h"

namespace sluice {
namespace {

BlockProgram gpipe_of(const BlockPlan& plan, const Grant& grant) {
  const MicroBatches& cut = plan.micro_batches;
  BlockProgram program;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    for (const Op op : {Op::forward, Op::backward})
      for (std::int64_t i = 0; i < cut.batches_in(turn); ++i)
        program.push_back({op, cut.first_of(turn) + i, turn, grant.phase});
  return program;
}

}  // namespace

RunPlan plan_of_gpipe(const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options) {
  RunPlan plan = make_run_plan(boundaries, options.model_norm,
                               options.accumulate, options.micro_batches);
  for (BlockPlan& block : plan.blocks) {
    if (block.delay > 0)
      throw UserError(
          "boundary {}: order = 'gpipe' goes without delays: set order = "
          "'turns'",
          block.block);
    block.program = gpipe_of;
  }
  return plan;
}

}  // namespace sluice
