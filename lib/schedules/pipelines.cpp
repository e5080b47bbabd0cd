#include "lib/schedules/pipelines.h"

#include "lib/base/error.h"

namespace sluice {

PipelineTurn::PipelineTurn(const BlockPlan& plan, std::int64_t turn,
                           std::int64_t phase, BlockProgram& program)
    : plan_(plan),
      turn_(turn),
      phase_(phase),
      batches_(plan.micro_batches.batches_in(turn)),
      program_(program) {}

void PipelineTurn::add(std::initializer_list<Op> ops, std::int64_t times) {
  const std::int64_t first = plan_.micro_batches.first_of(turn_);
  for (std::int64_t i = 0; i < times; ++i)
    for (const Op op : ops)
      program_.push_back({op, first + done_[op]++, turn_, phase_});
}

RunPlan make_pipeline(std::string_view order,
                      BlockProgram (*program)(const BlockPlan&, const Grant&),
                      const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options) {
  RunPlan plan = make_run_plan(boundaries, options.model_norm,
                               options.accumulate, options.micro_batches);
  for (BlockPlan& block : plan.blocks) {
    if (block.delay > 0)
      throw UserError(
          "boundary {}: order = '{}' goes without delays: set order = 'turns'",
          block.block, order);
    block.program = program;
  }
  return plan;
}

}  // namespace sluice
