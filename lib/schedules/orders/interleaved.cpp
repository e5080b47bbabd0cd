// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2): an
// executor has several blocks, every E-th of the network, so that a pipe of
// K blocks fills in the time of E. The boundaries between executors carry as
// many messages as there are blocks.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "lib/base/error.h"
#include "lib/schedules/orders/pipelines.h"
#include "lib/schedules/plan/executors.h"

namespace sluice {
namespace {

int chunks_of(const Placement& placement) {
  return static_cast<int>(std::ssize(placement.executors)) / placement.count;
}

/// The i-th forward or backward of an executor.
ExecutorStep step(const Placement& placement, Op op, std::int64_t i) {
  const std::int64_t executors = placement.count;
  const int chunks = chunks_of(placement);
  const std::int64_t round = executors * chunks;
  const int chunk = static_cast<int>(i % round / executors);
  return {op, op == Op::forward ? chunk : chunks - 1 - chunk,
          i / round * executors + i % executors};
}

/// Batch by batch, for turns whose batches the executors don't divide.
std::vector<ExecutorStep> one_after_another(int chunks, std::int64_t batches) {
  std::vector<ExecutorStep> steps;
  for (const Op op : {Op::forward, Op::backward})
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (int i = 0; i < chunks; ++i)
        steps.push_back({op, op == Op::forward ? i : chunks - 1 - i, batch});
  return steps;
}

std::vector<ExecutorStep> interleaved(const Placement& placement, int executor,
                                      std::int64_t batches) {
  const int chunks = chunks_of(placement);
  if (batches % placement.count != 0) return one_after_another(chunks, batches);
  const std::int64_t all = batches * chunks;
  const std::int64_t ahead = std::min<std::int64_t>(
      2 * (placement.count - executor - 1) + (chunks - 1) * placement.count,
      all);
  std::vector<ExecutorStep> steps;
  for (std::int64_t i = 0; i < ahead; ++i)
    steps.push_back(step(placement, Op::forward, i));
  for (std::int64_t i = 0; i < all; ++i) {
    if (ahead + i < all)
      steps.push_back(step(placement, Op::forward, ahead + i));
    steps.push_back(step(placement, Op::backward, i));
  }
  return steps;
}

void check(int blocks, const ScheduleOptions& options) {
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
  return make_shared_pipeline("interleaved", interleaved,
                              placed_in_loops(blocks, options.executors),
                              boundaries, options);
}

}  // namespace sluice
