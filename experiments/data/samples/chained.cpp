#include "experiments/data/samples/chained.h"

#include <utility>

namespace sluice {
namespace {

class ChainedSource final : public Source {
 public:
  ChainedSource(std::unique_ptr<Source> first, std::unique_ptr<Source> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  Batch batch(std::int64_t t) override {
    const std::int64_t before = first_->batches_per_epoch();
    const std::int64_t epoch = t / batches_per_epoch();
    const std::int64_t place = t % batches_per_epoch();
    Batch batch = place < before
                      ? first_->batch(epoch * before + place)
                      : second_->batch(epoch * second_->batches_per_epoch() +
                                       place - before);
    batch.index = t;
    return batch;
  }

  std::int64_t batches_per_epoch() const override {
    return first_->batches_per_epoch() + second_->batches_per_epoch();
  }

 private:
  std::unique_ptr<Source> first_;
  std::unique_ptr<Source> second_;
};

}  // namespace

std::unique_ptr<Source> chained(std::unique_ptr<Source> first,
                                std::unique_ptr<Source> second) {
  return std::make_unique<ChainedSource>(std::move(first), std::move(second));
}

}  // namespace sluice
