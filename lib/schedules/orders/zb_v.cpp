// ZB-V (Qi et al. 2024, arXiv:2401.10241, section 6): an executor has two
// blocks, one on the way up and one on the way down of a V, and backwards in
// two halves. The handcrafted order for equal times of forward and halves: from
// 2p - 1 batches on, no executor waits between its first and its last step, and
// none holds more graphs than 2p, those of p stages of two blocks.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/schedules/orders/pipelines.h"
#include "lib/schedules/plan/executors.h"

namespace sluice {
namespace {

/// An op of the executor's lower block, 0, or of its upper one, 1.
using OpOfChunk = std::pair<Op, int>;
constexpr OpOfChunk kForward0{Op::forward, 0};
constexpr OpOfChunk kForward1{Op::forward, 1};
constexpr OpOfChunk kInput0{Op::backward_input, 0};
constexpr OpOfChunk kInput1{Op::backward_input, 1};
constexpr OpOfChunk kWeights0{Op::backward_weights, 0};
constexpr OpOfChunk kWeights1{Op::backward_weights, 1};

class ChunkSteps {
 public:
  explicit ChunkSteps(std::int64_t batches) : batches_(batches) {}

  /// Adds these ops `times` times, each for its own next batch; batches that
  /// the turn lacks are left out.
  void add(std::initializer_list<OpOfChunk> ops, std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i)
      for (const OpOfChunk& each : ops) {
        const std::int64_t batch = done_[each]++;
        if (batch < batches_)
          steps_.push_back({each.first, each.second, batch});
      }
  }
  std::vector<ExecutorStep> take() { return std::move(steps_); }

 private:
  std::int64_t batches_;
  std::map<OpOfChunk, std::int64_t> done_;
  std::vector<ExecutorStep> steps_;
};

std::vector<ExecutorStep> zb_v(const Placement& placement, int executor,
                               std::int64_t batches) {
  const std::int64_t p = placement.count;
  const std::int64_t i = executor;
  // An order of fewer batches is that of a full pipe without the others.
  const std::int64_t m = std::max(batches, 2 * p - 1);
  ChunkSteps steps(batches);
  steps.add({kForward0}, 2 * (p - i) - 1);
  steps.add({kForward1, kForward0}, i);
  steps.add({kForward1, kInput1, kWeights1}, p - i);
  steps.add({kForward0, kInput0, kWeights0, kForward1, kInput1, kWeights1},
            m - 2 * p + 1 + i);
  steps.add({kInput0, kWeights0, kForward1, kInput1, kWeights1}, p - 1 - i);
  steps.add({kInput0, kInput1}, i);
  steps.add({kInput0, kWeights0}, p - i);
  steps.add({kWeights1}, i);
  steps.add({kWeights0}, i);
  return steps.take();
}

}  // namespace

RunPlan plan_of_zb_v(const std::vector<Traits>& boundaries,
                     const ScheduleOptions& options) {
  const int blocks = static_cast<int>(boundaries.size()) + 1;
  if (blocks % 2 != 0)
    throw UserError(
        "order = 'zb-v' gives every executor two blocks, and {} are no pairs: "
        "set an even number of blocks, or order = 'zb-h1'",
        blocks);
  return make_shared_pipeline("zb-v", zb_v, placed_in_v(blocks), boundaries,
                              options);
}

}  // namespace sluice
