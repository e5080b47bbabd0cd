#include "lib/blocks/micro_batch_source.h"

#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

class MicroBatchSource final : public Source {
 public:
  MicroBatchSource(std::unique_ptr<Source> turns, const MicroBatches& cut)
      : turns_(std::move(turns)), cut_(cut) {}

  Batch batch(std::int64_t n) override {
    const std::int64_t turn = cut_.turn_of(n);
    if (!now_.inputs.defined() || now_.index != turn)
      now_ = turns_->batch(turn);
    SLUICE_CHECK(now_.inputs.size(0) == cut_.samples_in(turn),
                 "turn {} has {} samples, expected {}", turn,
                 now_.inputs.size(0), cut_.samples_in(turn));
    return {.index = n,
            .inputs = part_of(now_.inputs, n),
            .labels = part_of(now_.labels, n),
            .raw_inputs = part_of(now_.raw_inputs, n),
            .ids = part_of(now_.ids, n)};
  }
  std::int64_t batches_per_epoch() const override {
    return turns_->batches_per_epoch() * cut_.count;
  }

 private:
  /// A copy, which begins on an alignment of its own: bits depend on it.
  at::Tensor part_of(const at::Tensor& turn, std::int64_t n) const {
    if (!turn.defined()) return {};
    return turn.narrow(0, cut_.begin_of(n), cut_.size_of(n)).clone();
  }

  std::unique_ptr<Source> turns_;
  MicroBatches cut_;
  Batch now_;
};

}  // namespace

std::unique_ptr<Source> in_micro_batches(std::unique_ptr<Source> turns,
                                         const MicroBatches& cut) {
  if (cut.count == 1) return turns;
  return std::make_unique<MicroBatchSource>(std::move(turns), cut);
}

}  // namespace sluice
