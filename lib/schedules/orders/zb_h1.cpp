// ZB-H1 (Qi et al. 2024, arXiv:2401.10241): 1F1B with backwards in two halves.
// What goes down goes first; the gradients of the weights follow later and fill
// the time in which 1F1B waits. No block holds more graphs than the lowest one
// does under 1F1B.
#include <algorithm>

#include "lib/base/error.h"
#include "lib/schedules/orders/pipelines.h"

namespace sluice {
namespace {

/// ZB-H1. Where no block below waits, the halves of a backward would follow
/// each other at once.
void zb_h1(PipelineRun& turn) {
  const Segment& at = turn.segment();
  if (at.below == 0 || turn.batches() < at.blocks())
    return one_forward_one_backward(turn);
  constexpr Op kForward = Op::forward;
  constexpr Op kInput = Op::backward_input;
  constexpr Op kWeights = Op::backward_weights;
  turn.add({kForward}, at.above);
  turn.add({kForward, kInput}, at.below);
  turn.add({kForward, kInput, kWeights}, turn.batches() - at.blocks() + 1);
  turn.add({kInput, kWeights}, at.above);
  turn.add({kWeights}, at.below);
}

void check_segment(const BlockPlan& top, const ScheduleOptions& options) {
  const int blocks = top.segment.blocks();
  if (blocks > 1 && options.model_norm)
    throw UserError(
        "order = 'zb-h1' sends gradients down before it has those of the "
        "weights, which the norm of clip.scope = 'model' is made of: use "
        "clip.scope = 'block' or order = '1f1b'");
  if (options.micro_batches.count < blocks)
    throw UserError(
        "order = 'zb-h1' needs at least as many pipeline.micro_batches as "
        "there are blocks between two cuts: blocks {} to {} are {}, and a turn "
        "has {} batches; order = '1f1b' takes fewer",
        top.block - top.segment.below, top.block, blocks,
        options.micro_batches.count);
}

}  // namespace

RunPlan plan_of_zb_h1(const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options) {
  RunPlan plan =
      make_pipeline("zb-h1", flush_by_flush<zb_h1>, boundaries, options);
  for (const BlockPlan& block : plan.blocks)
    if (block.segment.above == 0) check_segment(block, options);
  return plan;
}

}  // namespace sluice
