#include "lib/schedules/orders/rows.h"

#include "lib/base/added_rows.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/orders/pipelines.h"

namespace sluice {

RunPlan plan_of_gpipe(const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options);
RunPlan plan_of_one_f_one_b(const std::vector<Traits>& boundaries,
                            const ScheduleOptions& options);
RunPlan plan_of_zb_h1(const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options);
RunPlan plan_of_zb_v(const std::vector<Traits>& boundaries,
                     const ScheduleOptions& options);
RunPlan plan_of_interleaved(const std::vector<Traits>& boundaries,
                            const ScheduleOptions& options);

namespace {

RunPlan plan_of_turns(const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options) {
  RunPlan plan =
      make_run_plan(boundaries, options.model_norm, options.accumulate,
                    options.micro_batches, options.added);
  set_windows("turns", options, /*may_flow=*/false, plan);
  visit_by_parts(plan);
  return plan;
}

RunPlan plan_of_free(const std::vector<Traits>& boundaries,
                     const ScheduleOptions& options) {
  if (options.micro_batches.count > 1)
    throw UserError(
        "schedule = 'free' goes with pipeline.micro_batches = 1 only: there "
        "are no turns to cut");
  RunPlan plan =
      make_free_plan(boundaries, options.accumulate, options.in_flight);
  for (BlockPlan& block : plan.blocks) {
    block.free.priority = options.priority;
    if (!options.accumulate_by_block.empty())
      block.accumulate = by_block(options.accumulate_by_block, block.block);
  }
  return plan;
}

constexpr ScheduleRow kRows[] = {
    {"turns", "each batch goes forward and, when its delay is over, backward",
     plan_of_turns},
    {"gpipe", "all batches of a turn go forward, then all backward",
     plan_of_gpipe},
    {"1f1b",
     "a block goes as many batches ahead as there are blocks above it, then "
     "forwards and backwards alternate",
     plan_of_one_f_one_b},
    {"interleaved",
     "1f1b of E executors that have several blocks each, every E-th of the "
     "network",
     plan_of_interleaved},
    {"zb-h1",
     "1f1b with backwards in halves: the half that sends a gradient down comes "
     "first, that of the weights fills the time in which the block would wait",
     plan_of_zb_h1},
    {"zb-v",
     "backwards in halves of executors that have two blocks each, one of "
     "either "
     "half of the network, k from below and k from above",
     plan_of_zb_v},
    {"free", "a block does what is ready first, and a record says what it did",
     plan_of_free},
};

}  // namespace

std::span<const ScheduleRow> schedule_rows() {
  return with_added<MakePlan>(kRows);
}

}  // namespace sluice
