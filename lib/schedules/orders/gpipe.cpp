// GPipe (Huang et al. 2019, arXiv:1811.06965): all batches of a turn go
// forward, then all backward, the first one first: so the sums are those of
// other orders.
#include "lib/schedules/orders/pipelines.h"

namespace sluice {
namespace {

void gpipe(PipelineRun& turn) {
  turn.add({Op::forward}, turn.batches());
  turn.add({Op::backward}, turn.batches());
}

}  // namespace

RunPlan plan_of_gpipe(const std::vector<Traits>& boundaries,
                      const ScheduleOptions& options) {
  return make_pipeline("gpipe", flush_by_flush<gpipe>, boundaries, options);
}

}  // namespace sluice
