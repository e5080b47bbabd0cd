#include "lib/schedules/orders/pipelines.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"

namespace sluice {

PipelineRun::PipelineRun(const BlockPlan& plan, std::int64_t first,
                         std::int64_t end, std::int64_t phase,
                         BlockProgram& program)
    : plan_(plan),
      first_(plan.micro_batches.first_of(first)),
      phase_(phase),
      batches_(plan.micro_batches.first_of(end - 1) - first_ +
               plan.micro_batches.batches_in(end - 1)),
      program_(program) {}

std::int64_t PipelineRun::slack() const {
  if (plan_.flush) return 0;
  const Segment& mine = plan_.segment;
  return std::clamp<std::int64_t>(
      plan_.micro_batches.count - (mine.blocks() - 1), 0, mine.above);
}

void PipelineRun::add(std::initializer_list<Op> ops, std::int64_t times) {
  for (std::int64_t i = 0; i < times; ++i)
    for (const Op op : ops) {
      const std::int64_t batch = first_ + done_[op]++;
      program_.push_back(
          {op, batch, plan_.micro_batches.turn_of(batch), phase_});
    }
}

namespace {

/// Batches of a window j + 1 are forwarded before update j by as many blocks as
/// are above: two versions of weights do only for a window that is as long.
void check_without_flush(const RunPlan& plan, const ScheduleOptions& options) {
  const MicroBatches& cut = options.micro_batches;
  if (!options.window_weights.by_window)
    throw UserError(
        "pipeline.flush = false begins a turn before the update of the "
        "previous one: set pipeline.weights = 'double_buffer', or flush = "
        "true");
  if (cut.count > 1 && cut.turns_per_epoch > 0 &&
      cut.last_samples != cut.samples)
    throw UserError(
        "pipeline.flush = false wants turns of one size: set drop_last = true");
  for (const BlockPlan& block : plan.blocks) {
    if (block.lower.learns || block.forwards_data())
      throw UserError(
          "boundary {}: synthesizers and input models learn when all batches "
          "of a turn are done, and pipeline.flush = false goes on before: set "
          "flush = true",
          block.block);
    if (cut.count * options.accumulate < block.segment.blocks() - 1)
      throw UserError(
          "pipeline.flush = false keeps only two versions of the weights: with "
          "{} blocks between two cuts an update needs {} batches or more, and "
          "has {}; raise pipeline.micro_batches, or set flush = true",
          block.segment.blocks(), block.segment.blocks() - 1,
          cut.count * options.accumulate);
  }
}

}  // namespace

void set_windows(std::string_view order, const ScheduleOptions& options,
                 bool may_flow, RunPlan& plan) {
  if (!options.flush && !may_flow)
    throw UserError(
        "order = '{}' flushes the pipe after each turn: set order = '1f1b', or "
        "leave pipeline.flush out",
        order);
  for (BlockPlan& block : plan.blocks) {
    if (options.window_weights.by_window && block.delay > 0)
      throw UserError(
          "boundary {}: pipeline.weights = '{}' is for boundaries that don't "
          "delay",
          block.block, options.window_weights.view);
    if (options.window_weights.by_window && block.sweeps)
      throw UserError(
          "pipeline.weights = '{}' can't go with variables that move several "
          "times, whose visits forward a batch anew with the latest weights: "
          "leave it out, or set steps = 1 and order = 'top_down'",
          options.window_weights.view);
    if (options.recompute && options.window_weights.by_window)
      throw UserError(
          "pipeline.recompute builds graphs on the latest weights, and "
          "pipeline.weights = '{}' wants others: leave one of them out",
          options.window_weights.view);
    if (options.recompute && block.delay > 0)
      throw UserError(
          "boundary {}: pipeline.recompute is for boundaries that don't delay: "
          "set weights = 'recompute' there",
          block.block);
    block.recompute = options.recompute;
    block.flush = options.flush;
    if (options.window_weights.by_window)
      block.weights = options.window_weights;
  }
  if (!options.flush) check_without_flush(plan, options);
}

RunPlan make_pipeline(std::string_view order,
                      BlockProgram (*program)(const BlockPlan&, const Grant&),
                      const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options, bool may_flow) {
  RunPlan plan = make_run_plan(boundaries, options.model_norm,
                               options.accumulate, options.micro_batches);
  for (BlockPlan& block : plan.blocks) {
    if (block.delay > 0)
      throw UserError(
          "boundary {}: order = '{}' goes without delays: set order = 'turns'",
          block.block, order);
    block.program = program;
  }
  set_windows(order, options, may_flow, plan);
  return plan;
}

RunPlan make_shared_pipeline(std::string_view order, ExecutorOrder steps,
                             const Placement& placement,
                             const std::vector<Traits>& boundaries,
                             const ScheduleOptions& options) {
  if (options.model_norm && placement.is_shared())
    throw UserError(
        "order = '{}' ends a block's turn before the executor's other blocks "
        "have their gradients, which the norm of clip.scope = 'model' is made "
        "of: use clip.scope = 'block'",
        order);
  RunPlan plan = make_pipeline(order, own_steps, boundaries, options);
  for (BlockPlan& block : plan.blocks) {
    if (block.lower.learns || block.forwards_data())
      throw UserError(
          "boundary {}: order = '{}' can't have synthesizers or input models, "
          "which learn from batches: set order = '1f1b'",
          block.block, order);
    if (!block.visits.empty())
      throw UserError(
          "boundary {}: order = '{}' takes a batch back once, and its policy "
          "visits it several times: set order = 'turns'",
          block.block, order);
    block.placement = placement;
    block.placement.steps = steps;
  }
  return plan;
}

}  // namespace sluice
