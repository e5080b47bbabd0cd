#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

// The part that all orders of exact pipelines share: a turn's batches follow
// each other through the blocks, all gradients are of the weights that the turn
// began with, and each op takes the batches as they come. They change no
// number.

/// The forwards and backwards of a block between two flushes, on their way:
/// those of a turn, or of several where they follow each other without one.
class PipelineRun {
 public:
  /// For the turns [first, end): add() appends their actions to `program`. Plan
  /// and program must outlive this object.
  PipelineRun(const BlockPlan& plan, std::int64_t first, std::int64_t end,
              std::int64_t phase, BlockProgram& program);

  /// Where the block stands, and how many batches there are: M of a turn.
  const Segment& segment() const { return plan_.segment; }
  std::int64_t batches() const { return batches_; }
  /// Batches by which the block may run further ahead than its order needs,
  /// where the pipe isn't flushed: then one for each block above, so that none
  /// waits for messages on their way or for a neighbour that was slow once. No
  /// more than the double buffer's two versions of the weights allow the lowest
  /// block, for each must be ahead of the one above it.
  std::int64_t slack() const;
  /// Adds these ops `times` times, each for its own next batch.
  void add(std::initializer_list<Op> ops, std::int64_t times);

 private:
  const BlockPlan& plan_;
  std::int64_t first_;  // batch
  std::int64_t phase_;
  std::int64_t batches_;
  BlockProgram& program_;
  OpValues<std::int64_t> done_ = {};
};

/// BlockPlan::program of an order that is told from flush to flush.
template <void (*kTell)(PipelineRun&)>
BlockProgram flush_by_flush(const BlockPlan& plan, const Grant& grant) {
  BlockProgram program;
  const std::int64_t turns = plan.flush ? 1 : grant.end_turn - grant.first_turn;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn;
       turn += turns) {
    PipelineRun told(plan, turn, turn + turns, grant.phase, program);
    kTell(told);
  }
  return program;
}

/// 1F1B, which is also what other orders do where they don't fit.
void one_forward_one_backward(PipelineRun& run);

/// Has the blocks of a plan see the weights that the options want, build graphs
/// anew, and go on without a flush, where the order may. Throws
/// UserError, naming the order, where that can't be.
void set_windows(std::string_view order, const ScheduleOptions& options,
                 bool may_flow, RunPlan& plan);

/// The plan of a run in that order. Throws UserError, naming the order, where a
/// boundary delays; and what set_windows() throws.
RunPlan make_pipeline(std::string_view order,
                      BlockProgram (*program)(const BlockPlan&, const Grant&),
                      const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options, bool may_flow = false);

/// The plan of a run whose executors may have several blocks, placed so, and do
/// their steps in that order. Throws what make_pipeline() throws; and where a
/// block learns from batches or visits them several times, or the norm of the
/// whole model is clipped by.
RunPlan make_shared_pipeline(std::string_view order, ExecutorOrder steps,
                             const Placement& placement,
                             const std::vector<Traits>& boundaries,
                             const ScheduleOptions& options);

}  // namespace sluice
