// 1F1B (Narayanan et al. 2021, arXiv:2104.04473, with a flush after each turn;
// arXiv:2006.09503, without): a block forwards as many batches as there are
// blocks above it, then one forward and one backward alternate, so that it
// holds no more graphs than that and one (without a flush: twice that and one).
// As fast as GPipe.
#include <algorithm>

#include "lib/schedules/orders/pipelines.h"

namespace sluice {

void one_forward_one_backward(PipelineRun& run) {
  const std::int64_t ahead =
      std::min(run.segment().above + run.slack(), run.batches());
  run.add({Op::forward}, ahead);
  run.add({Op::forward, Op::backward}, run.batches() - ahead);
  run.add({Op::backward}, ahead);
}

RunPlan plan_of_one_f_one_b(const std::vector<Traits>& boundaries,
                            const ScheduleOptions& options) {
  return make_pipeline("1f1b", flush_by_flush<one_forward_one_backward>,
                       boundaries, options, /*may_flow=*/true);
}

}  // namespace sluice
