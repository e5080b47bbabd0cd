// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2): an
// executor has several blocks, every E-th of the network, so that a pipe of
// K blocks fills in the time of E. The boundaries between executors carry as
// many messages as there are blocks.
#include <algorithm>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/orders/pipelines.h"

namespace sluice {
namespace {

/// An op of one of an executor's blocks; batches count within the turn.
struct Step {
  Op op = Op::forward;
  std::int64_t chunk = 0;
  std::int64_t batch = 0;
};

/// The i-th forward or backward of an executor.
Step step(const Seating& seats, Op op, std::int64_t i) {
  const std::int64_t executors = seats.executors;
  const std::int64_t round = executors * seats.chunks;
  const std::int64_t chunk = i % round / executors;
  return {op, op == Op::forward ? chunk : seats.chunks - 1 - chunk,
          i / round * executors + i % executors};
}

/// Batch by batch, for turns whose batches the executors don't divide.
std::vector<Step> one_after_another(const Seating& seats,
                                    std::int64_t batches) {
  std::vector<Step> steps;
  for (const Op op : {Op::forward, Op::backward})
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (std::int64_t i = 0; i < seats.chunks; ++i)
        steps.push_back(
            {op, op == Op::forward ? i : seats.chunks - 1 - i, batch});
  return steps;
}

/// The steps of one turn of an executor, in its order; executors count from 0.
std::vector<Step> steps_of(const Seating& seats, int executor,
                           std::int64_t batches) {
  if (batches % seats.executors != 0) return one_after_another(seats, batches);
  const std::int64_t all = batches * seats.chunks;
  const std::int64_t ahead =
      std::min<std::int64_t>(2 * (seats.executors - executor - 1) +
                                 (seats.chunks - 1) * seats.executors,
                             all);
  std::vector<Step> steps;
  for (std::int64_t i = 0; i < ahead; ++i)
    steps.push_back(step(seats, Op::forward, i));
  for (std::int64_t i = 0; i < all; ++i) {
    if (ahead + i < all) steps.push_back(step(seats, Op::forward, ahead + i));
    steps.push_back(step(seats, Op::backward, i));
  }
  return steps;
}

std::vector<SeatAction> order_of(const RunPlan& plan, int executor,
                                 const Grant& grant) {
  const BlockPlan& first = by_block(plan.blocks, seats_of(plan, executor)[0]);
  const MicroBatches& cut = first.micro_batches;
  const int within = executor - first.seating.first;
  std::vector<SeatAction> order;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    for (const Step& each :
         steps_of(first.seating, within, cut.batches_in(turn)))
      order.push_back(
          {first.seat() +
               static_cast<int>(each.chunk) * first.seating.executors,
           {each.op, cut.first_of(turn) + each.batch, turn, grant.phase}});
  return order;
}

BlockProgram interleaved_of(const BlockPlan& plan, const Grant& grant) {
  const Seating& seats = plan.seating;
  const MicroBatches& cut = plan.micro_batches;
  const int chunk = (plan.block - 1) / seats.executors;
  BlockProgram program;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    for (const Step& each :
         steps_of(seats, seats.executor_of(plan.block) - seats.first,
                  cut.batches_in(turn)))
      if (each.chunk == chunk)
        program.push_back(
            {each.op, cut.first_of(turn) + each.batch, turn, grant.phase});
  return program;
}

void check(int blocks, const ScheduleOptions& options) {
  if (options.model_norm && blocks > options.executors)
    throw UserError(
        "order = 'interleaved' ends a block's turn before the executor's other "
        "blocks have their gradients, which the norm of clip.scope = 'model' "
        "is made of: use clip.scope = 'block'");
  if (options.executors < 1)
    throw UserError(
        "order = 'interleaved' deals {} blocks out to fewer executors: set "
        "pipeline.executors to a divisor of that number",
        blocks);
  if (blocks % options.executors != 0)
    throw UserError(
        "order = 'interleaved' gives every executor the same number of blocks: "
        "pipeline.executors = {} doesn't divide {} blocks",
        options.executors, blocks);
  if (options.micro_batches.count % options.executors != 0)
    throw UserError(
        "order = 'interleaved' needs a multiple of the number of executors: "
        "pipeline.micro_batches = {} is no multiple of {}",
        options.micro_batches.count, options.executors);
}

}  // namespace

RunPlan plan_of_interleaved(const std::vector<Traits>& boundaries,
                            const ScheduleOptions& options) {
  const int blocks = static_cast<int>(boundaries.size()) + 1;
  check(blocks, options);
  RunPlan plan =
      make_pipeline("interleaved", interleaved_of, boundaries, options);
  plan.order = order_of;
  for (BlockPlan& block : plan.blocks) {
    if (block.learns || block.forwards_data())
      throw UserError(
          "boundary {}: order = 'interleaved' can't have synthesizers or input "
          "models, which learn from batches: set order = '1f1b'",
          block.block);
    block.seating = {options.executors, blocks / options.executors};
  }
  return plan;
}

}  // namespace sluice
