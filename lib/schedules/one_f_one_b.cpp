// 1F1B with a flush (Narayanan et al. 2021, arXiv:2104.04473): a block forwards
// as many batches as there are blocks above it, then one forward and one
// backward alternate, so that it holds no more graphs than that and one. As
// fast as GPipe.
#include <algorithm>

#include "lib/schedules/pipelines.h"

namespace sluice {

void one_forward_one_backward(PipelineTurn& turn) {
  const std::int64_t ahead =
      std::min<std::int64_t>(turn.segment().above, turn.batches());
  turn.add({Op::forward}, ahead);
  turn.add({Op::forward, Op::backward}, turn.batches() - ahead);
  turn.add({Op::backward}, ahead);
}

RunPlan plan_of_one_f_one_b(const std::vector<Traits>& boundaries,
                            const ScheduleOptions& options) {
  return make_pipeline("1f1b", turn_by_turn<one_forward_one_backward>,
                       boundaries, options);
}

}  // namespace sluice
