#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "lib/schedules/plan.h"
#include "lib/schedules/rows.h"

namespace sluice {

// What the orders share that are exact pipelines: a turn's batches follow each
// other through the blocks, all gradients are of the weights that the turn
// began with, and each op takes the batches as they come. They change no
// number.

/// The forwards and backwards of one turn of one block, on their way.
class PipelineTurn {
 public:
  PipelineTurn(const BlockPlan& plan, std::int64_t turn, std::int64_t phase,
               BlockProgram& program);

  /// Where the block stands, and M: how many batches the turn has.
  const Segment& segment() const { return plan_.segment; }
  std::int64_t batches() const { return batches_; }
  /// So many times these ops, each of its own next batch.
  void add(std::initializer_list<Op> ops, std::int64_t times);

 private:
  const BlockPlan& plan_;
  std::int64_t turn_;
  std::int64_t phase_;
  std::int64_t batches_;
  BlockProgram& program_;
  ByOp<std::int64_t> done_ = {};
};

/// BlockPlan::program of an order that is told turn by turn.
template <void (*kTell)(PipelineTurn&)>
BlockProgram turn_by_turn(const BlockPlan& plan, const Grant& grant) {
  BlockProgram program;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn) {
    PipelineTurn told(plan, turn, grant.phase, program);
    kTell(told);
  }
  return program;
}

/// A turn of 1F1B, which is also that of other orders where they don't fit.
void one_forward_one_backward(PipelineTurn& turn);

/// The plan of a run in that order. Throws UserError, naming the order, where a
/// boundary delays.
RunPlan make_pipeline(std::string_view order,
                      BlockProgram (*program)(const BlockPlan&, const Grant&),
                      const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options);

}  // namespace sluice
